//! The classes of any pool.

use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases::cases(5_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// For slabs of any size that a pool can have and blocks of any smaller size, nothing overflows, and every block has its bytes.
    #[test]
    fn classes_of_any_slab_hold_their_bytes(
        slab_chunks in prop_oneof![1..100_usize, 1..=(isize::MAX as usize / CHUNK)],
        bytes in prop_oneof![1..100_000_usize, 1..=isize::MAX as usize],
    ) {
        let slab_bytes = slab_chunks * CHUNK;
        let classes = Classes::new(slab_bytes);
        prop_assert!(classes.sizes.is_sorted() && u16::try_from(classes.count()).is_ok());
        match classes.of(bytes) {
            None => prop_assert!(bytes > *classes.sizes.last().unwrap()),
            Some(class) => {
                let (size, run) = (classes.size(class), classes.run(class));
                prop_assert!(bytes <= size && size <= slab_bytes / 2);
                // Four steps between two powers of two, in pages or chunks.
                let grain = [(PAGE, SMALLEST), (CHUNK, PAGE)].into_iter().find(|(to, _)| bytes <= *to);
                prop_assert!(size - bytes < grain.map_or(CHUNK, |(_, grain)| grain).max(bytes / 4 + 1));
                prop_assert!(run.count as u128 * size as u128 <= run.bytes as u128);
                // Blocks beyond a page share none.
                prop_assert!(run.bytes.is_multiple_of(run.align) && run.align >= PAGE);
                prop_assert!(size <= PAGE || size.is_multiple_of(PAGE));
                prop_assert!(run.count >= 1 && (size < CHUNK || run.align == CHUNK));
                // A run fits in an empty slab, at any alignment.
                prop_assert!(run.bytes <= slab_bytes && slab_bytes.is_multiple_of(run.align));
            }
        }
    }
}

#[test]
fn four_steps_from_one_power_of_two_to_the_next() {
    let classes = Classes::new(32 * MIB);
    let kib: Vec<_> = classes.sizes.iter().map(|size| size / KIB).collect();
    let from_64 = kib.iter().position(|&size| size == 64).unwrap();
    assert_eq!(kib[from_64..from_64 + 5], [64, 80, 96, 112, 128]);
    assert_eq!(&classes.sizes[..5], [256, 512, 768, 1024, 1280]);
    assert_eq!(*classes.sizes.last().unwrap(), 16 * MIB);
    assert!(classes.sizes.is_sorted() && classes.count() < 80);
}
