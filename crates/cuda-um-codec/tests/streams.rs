//! Round trips of any data, and damaged streams.

use cuda_um_codec::{BLOCK, CodecError, Compressed, compress, decode_blocks, table_words};
use half::bf16;
use proptest::prelude::*;

/// Values with a normal-like distribution, as weights have.
fn weights(count: usize) -> Vec<bf16> {
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count)
        .map(|_| bf16::from_f32((0..12).map(|_| next()).sum::<f32>() - 6.0))
        .collect()
}

fn bits(values: &[bf16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn round_trip(values: &[bf16]) -> f64 {
    let compressed = compress(values).unwrap();
    assert_eq!(compressed.len(), values.len());
    assert_eq!(bits(&compressed.decompress().unwrap()), bits(values));
    let again = Compressed::from_bytes(&compressed.to_bytes()).unwrap();
    assert_eq!(again, compressed);
    let mut decoded = vec![bf16::ONE; values.len()];
    decode_blocks(compressed.words(), &mut decoded);
    assert_eq!(bits(&decoded), bits(values));
    compressed.ratio()
}

#[test]
fn weights_take_seven_tenths() {
    let ratio = round_trip(&weights(1_000_000));
    assert!((0.67..0.72).contains(&ratio), "{ratio}");
}

#[test]
fn lengths_around_blocks() {
    for count in [0, 1, 2, 3, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
        round_trip(&weights(count));
    }
}

#[test]
fn every_bit_pattern_is_kept_and_stored_raw() {
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let scattered: Vec<bf16> = (0..all.len())
        .map(|at| all[at * 40_503 % all.len()])
        .collect();
    let ratio = round_trip(&scattered);
    assert!((1.0..1.01).contains(&ratio), "{ratio}");
    assert!(
        round_trip(&[bf16::from_f32(1.5); 10_000]) < 0.51,
        "one exponent needs no codes"
    );
}

#[test]
fn damage_is_an_error() {
    let values = weights(2 * BLOCK + 100);
    let good = compress(&values).unwrap();
    for word in 0..good.words().len() {
        let mut words = good.words().to_vec();
        words[word] ^= 1 << (word % 32);
        let result = Compressed::from_words(words).and_then(|stream| stream.decompress());
        assert!(result.is_err(), "word {word}");
    }
    for words in 0..good.words().len() {
        let short = good.words()[..words].to_vec();
        assert!(Compressed::from_words(short).is_err(), "{words} words");
    }
    let mut bytes = good.to_bytes();
    bytes.pop();
    assert!(matches!(
        Compressed::from_bytes(&bytes),
        Err(CodecError::Length { .. })
    ));
    assert!(matches!(
        Compressed::from_bytes(&[0; 64]),
        Err(CodecError::NotAStream { word: 0, .. })
    ));
    let table = table_words(values.len());
    let mut words = good.words().to_vec();
    words[table] ^= 1;
    assert!(matches!(
        Compressed::from_words(words).unwrap().decompress(),
        Err(CodecError::Damaged { block: 0, .. })
    ));
    assert_eq!(
        good.decompress_into(&mut [bf16::ZERO; 3]),
        Err(CodecError::Destination {
            expected: values.len(),
            found: 3
        })
    );
}

proptest! {
    #[test]
    fn any_values_come_back(values in prop::collection::vec(any::<u16>(), 0..3 * BLOCK), mask in any::<u16>()) {
        let values: Vec<_> = values.iter().map(|bits| bf16::from_bits(bits & mask)).collect();
        round_trip(&values);
    }

    #[test]
    fn any_words_are_read_or_refused(words in prop::collection::vec(any::<u32>(), 0..200), count in 0usize..9000) {
        let mut values = vec![bf16::ZERO; count];
        decode_blocks(&words, &mut values);
        if let Ok(stream) = Compressed::from_words(words) {
            let _ = stream.decompress();
        }
    }
}
