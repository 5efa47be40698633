//! Single cases of the residency cache; `properties` tests random ones.
#![allow(
    clippy::single_range_in_vec_init,
    reason = "ranges are what is compared"
)]

use crate::resource::cache::extent::{BLOCK, Extent};
use crate::resource::cache::{By, Cache, Place};
use std::ops::Range;

const GPU: Place = Place::Device(0);

impl Cache {
    fn is_there(&self, extent: &Extent, range: Range<usize>, place: Place) -> bool {
        self.missing(extent, range, place).is_empty()
    }
}

fn extent(addresses: Range<usize>) -> Extent {
    let end = addresses.end;
    Extent::new(addresses, end)
}

#[test]
fn what_was_moved_is_there_until_another_processor_touches_it() {
    let (cache, of) = (Cache::new(GPU, true), extent(BLOCK..4 * BLOCK));
    let all = of.addresses.clone();
    assert!(!cache.is_there(&of, all.clone(), GPU));
    cache.moved(&of, all.clone(), GPU, true);
    assert!(cache.is_there(&of, all.clone(), GPU));
    assert!(!cache.is_there(&of, all.clone(), Place::Host));
    for (by, stays) in [
        (By::Reader(GPU), true),
        (By::Writer(GPU), true),
        (By::Reader(Place::Device(1)), false),
        (By::Reader(Place::Host), false),
        (By::Writer(Place::Host), false),
        (By::Unknown, false),
    ] {
        cache.moved(&of, all.clone(), GPU, true);
        cache.touched(by);
        assert_eq!(cache.is_there(&of, all.clone(), GPU), stays, "{by:?}");
    }
}

#[test]
fn only_what_is_missing_is_named() {
    let (cache, of) = (Cache::new(GPU, true), extent(BLOCK..5 * BLOCK + 100));
    cache.moved(&of, 2 * BLOCK..3 * BLOCK, GPU, true);
    cache.moved(&of, 3 * BLOCK..3 * BLOCK + 10, GPU, true);
    assert_eq!(
        *cache.missing(&of, of.addresses.clone(), GPU),
        [BLOCK..2 * BLOCK, 3 * BLOCK..5 * BLOCK + 100],
        "half a block is not known to be there"
    );
    assert_eq!(
        *cache.missing(&of, 2 * BLOCK + 5..3 * BLOCK + 5, GPU),
        [3 * BLOCK..3 * BLOCK + 5]
    );
    cache.moved(&of, of.addresses.clone(), GPU, true);
    cache.moved(&of, 4 * BLOCK..5 * BLOCK, Place::Host, true);
    cache.touched(By::Writer(GPU));
    assert_eq!(
        *cache.missing(&of, of.addresses.clone(), GPU),
        [4 * BLOCK..5 * BLOCK + 100],
        "the last block may be shared"
    );
}

#[test]
fn a_block_that_may_be_shared_is_not_known_to_be_anywhere() {
    let cache = Cache::new(GPU, true);
    for (addresses, reserved_end, shared) in [
        (BLOCK..BLOCK + 4096, BLOCK + 4096, vec![BLOCK..BLOCK + 4096]),
        (BLOCK..BLOCK + 4096, 2 * BLOCK, vec![]),
        (BLOCK + 1..3 * BLOCK, 3 * BLOCK, vec![BLOCK + 1..2 * BLOCK]),
        (BLOCK..3 * BLOCK - 1, 3 * BLOCK, vec![]),
        (
            BLOCK + 1..2 * BLOCK - 1,
            2 * BLOCK - 1,
            vec![BLOCK + 1..2 * BLOCK - 1],
        ),
    ] {
        let of = Extent::new(addresses.clone(), reserved_end);
        cache.moved(&of, addresses.clone(), GPU, true);
        assert_eq!(
            *cache.missing(&of, addresses.clone(), GPU),
            *shared,
            "{addresses:?}"
        );
        cache.touched(By::Unknown);
    }
}

#[test]
fn reads_beside_a_move_of_the_buffer_count() {
    let (cache, of) = (Cache::new(GPU, true), extent(BLOCK..4 * BLOCK));
    let all = of.addresses.clone();
    cache.touched(By::Reader(Place::Device(1)));
    cache.moved(&of, all.clone(), GPU, false);
    assert!(!cache.is_there(&of, 2 * BLOCK..3 * BLOCK, GPU));
    cache.moved(&of, all.clone(), GPU, true);
    assert!(cache.is_there(&of, all, GPU));
}

#[test]
fn reading_read_mostly_memory_moves_nothing() {
    let (cache, of) = (Cache::new(GPU, true), extent(0..BLOCK));
    cache.set_read_mostly();
    cache.moved(&of, 0..BLOCK, GPU, true);
    cache.touched(By::Reader(Place::Host));
    assert!(cache.is_there(&of, 0..BLOCK, GPU));
    cache.touched(By::Writer(Place::Host));
    assert!(!cache.is_there(&of, 0..BLOCK, GPU));
}
