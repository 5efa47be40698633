//! One block: the best width, its words, and back.

use crate::bits::{byte, checksum, code, set_byte, set_code};
use crate::format::{Entry, RAW, WIDEST, block_words, code_words};
use half::bf16;

/// Sign and mantissa of an element, and its exponent.
fn split(value: bf16) -> (u8, usize) {
    let bits = value.to_bits();
    let rest = (bits >> 8 & 0x80) | (bits & 0x7f);
    (rest as u8, usize::from(bits >> 7 & 0xff))
}

fn join(rest: u8, exponent: u32) -> bf16 {
    let rest = u16::from(rest);
    bf16::from_bits((rest & 0x80) << 8 | (exponent as u16 & 0xff) << 7 | (rest & 0x7f))
}

/// Encodes a block. Its entry has no first word yet.
pub(crate) fn encode(values: &[bf16]) -> (Entry, Vec<u32>) {
    let (width, base, escapes) = best(values);
    let mut entry = Entry {
        start: 0,
        width,
        base: base as u32,
        escapes,
        checksum: 0,
    };
    let mut words = vec![0; entry.words(values.len())];
    match width {
        RAW => {
            for (at, value) in values.iter().enumerate() {
                words[at / 2] |= u32::from(value.to_bits()) << (at % 2 * 16);
            }
        }
        width => encode_codes(values, width, base, &mut words),
    }
    entry.checksum = checksum(&words);
    (entry, words)
}

fn encode_codes(values: &[bf16], width: u32, base: usize, words: &mut [u32]) {
    let (rests, words) = words.split_at_mut(values.len().div_ceil(4));
    let (codes, escapes) = words.split_at_mut(code_words(values.len(), width));
    let escape = (1 << width) - 1;
    let mut escaped = 0;
    for (at, value) in values.iter().enumerate() {
        let (rest, exponent) = split(*value);
        set_byte(rests, at, rest);
        if width == 0 {
            continue;
        }
        let code = match exponent.checked_sub(base) {
            Some(code) if code < escape => code,
            _ => {
                set_byte(escapes, escaped, exponent as u8);
                escaped += 1;
                escape
            }
        };
        set_code(codes, at * width as usize, width, code as u32);
    }
}

/// The width, the exponent of code 0 and the number of escapes that need the fewest words.
fn best(values: &[bf16]) -> (u32, usize, usize) {
    let mut counts = [0usize; 256];
    values.iter().for_each(|value| counts[split(*value).1] += 1);
    let raw = (values.len().div_ceil(2), (RAW, 0, 0));
    let of_width = |width: u32| {
        let codes = ((1usize << width) - 1).max(1);
        let (escapes, base) = (0..=256 - codes)
            .map(|base| {
                (
                    values.len() - counts[base..base + codes].iter().sum::<usize>(),
                    base,
                )
            })
            .min()?;
        // Without codes, there are no escapes.
        (width > 0 || escapes == 0).then(|| {
            let words = block_words(values.len(), width, escapes);
            (words, (width, base, escapes))
        })
    };
    (0..=WIDEST)
        .filter_map(of_width)
        .chain([raw])
        .min()
        .map_or((RAW, 0, 0), |(_, how)| how)
}

/// Decodes a block, as the kernel does: words after the end are 0. Returns the number of escapes.
pub(crate) fn decode(entry: &Entry, words: &[u32], values: &mut [bf16]) -> usize {
    if entry.width == RAW {
        for (at, value) in values.iter_mut().enumerate() {
            let word = words.get(at / 2).copied().unwrap_or(0);
            *value = bf16::from_bits((word >> (at % 2 * 16)) as u16);
        }
        return 0;
    }
    let width = entry.width.min(WIDEST);
    let after = |words: usize, of: &[u32]| of.len().min(words);
    let (rests, words) = words.split_at(after(values.len().div_ceil(4), words));
    let (codes, escapes) = words.split_at(after(code_words(values.len(), width), words));
    let escape = (1 << width) - 1;
    let mut escaped = 0;
    for (at, value) in values.iter_mut().enumerate() {
        let exponent = match code(codes, at * width as usize, width) {
            code if width > 0 && code == escape => {
                escaped += 1;
                u32::from(byte(escapes, escaped - 1))
            }
            code => entry.base + code,
        };
        *value = join(byte(rests, at), exponent);
    }
    escaped
}
