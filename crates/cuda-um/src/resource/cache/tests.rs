//! What the shadow says after a few uses, told one by one; `properties` tries many.
#![allow(
    clippy::single_range_in_vec_init,
    reason = "ranges are what is compared"
)]

use crate::resource::cache::extent::Extent;
use crate::resource::cache::neighbours::{BLOCK, Later, Neighbours, User};
use crate::resource::cache::{By, Place, Shadow};
use std::ops::Range;

const GPU: Place = Place::Device(0);

impl Shadow {
    fn is_there(&self, extent: &Extent<'_>, range: Range<usize>, place: Place) -> bool {
        self.missing(extent, range, place).is_empty()
    }
}

/// A user that nothing runs beside.
const ALONE: User<'static> = User {
    buffer: 1,
    after_own: true,
    after_all: &|| true,
    before: Later::OfTheBuffer,
};

fn extent(neighbours: &Neighbours, addresses: Range<usize>) -> Extent<'_> {
    Extent {
        addresses,
        neighbours,
    }
}

#[test]
fn what_was_moved_is_there_until_somebody_else_touches_it() {
    let (neighbours, shadow) = (Neighbours::default(), Shadow::default());
    let of = extent(&neighbours, BLOCK..4 * BLOCK);
    let all = of.addresses.clone();
    assert!(!shadow.is_there(&of, all.clone(), GPU));
    shadow.moved(&of, all.clone(), GPU, &ALONE);
    assert!(shadow.is_there(&of, all.clone(), GPU));
    assert!(!shadow.is_there(&of, all.clone(), Place::Host));
    for (by, stays) in [
        (By::Reader(GPU), true),
        (By::Writer(GPU), true),
        (By::Reader(Place::Device(1)), false),
        (By::Reader(Place::Host), false),
        (By::Writer(Place::Host), false),
        (By::Unknown, false),
    ] {
        shadow.moved(&of, all.clone(), GPU, &ALONE);
        shadow.touched(&of, by, &ALONE);
        assert_eq!(shadow.is_there(&of, all.clone(), GPU), stays, "{by:?}");
    }
}

#[test]
fn only_what_is_missing_is_named() {
    let (neighbours, shadow) = (Neighbours::default(), Shadow::default());
    let of = extent(&neighbours, BLOCK / 2..5 * BLOCK + 100);
    shadow.moved(&of, 2 * BLOCK..3 * BLOCK, GPU, &ALONE);
    shadow.moved(&of, 3 * BLOCK..3 * BLOCK + 10, GPU, &ALONE);
    assert_eq!(
        *shadow.missing(&of, of.addresses.clone(), GPU),
        [BLOCK / 2..2 * BLOCK, 3 * BLOCK..5 * BLOCK + 100],
        "half a block is not known to be there"
    );
    assert_eq!(
        *shadow.missing(&of, 2 * BLOCK + 5..3 * BLOCK + 5, GPU),
        [3 * BLOCK..3 * BLOCK + 5]
    );
    shadow.moved(&of, of.addresses.clone(), GPU, &ALONE);
    shadow.moved(&of, 4 * BLOCK..5 * BLOCK, Place::Host, &ALONE);
    assert_eq!(
        *shadow.missing(&of, of.addresses.clone(), GPU),
        [4 * BLOCK..5 * BLOCK]
    );
    shadow.touched(&of, By::Writer(GPU), &ALONE);
    assert_eq!(
        *shadow.missing(&of, of.addresses.clone(), GPU),
        [4 * BLOCK..5 * BLOCK]
    );
}

#[test]
fn neighbours_in_a_block_count_and_others_do_not() {
    let neighbours = Neighbours::default();
    let (a, b, c) = (Shadow::default(), Shadow::default(), Shadow::default());
    let of_a = extent(&neighbours, BLOCK..BLOCK + 4096);
    let of_b = extent(&neighbours, BLOCK + 4096..BLOCK + 8192);
    let of_c = extent(&neighbours, 7 * BLOCK..8 * BLOCK);
    let there = |shadow: &Shadow, of: &Extent<'_>| shadow.is_there(of, of.addresses.clone(), GPU);
    for (shadow, of) in [(&a, &of_a), (&b, &of_b), (&c, &of_c)] {
        shadow.moved(of, of.addresses.clone(), GPU, &ALONE);
    }
    assert!(there(&a, &of_a) && there(&b, &of_b) && there(&c, &of_c));
    // The CPU may have taken all of the block along.
    b.touched(&of_b, By::Reader(Place::Host), &ALONE);
    assert!(!there(&a, &of_a) && there(&c, &of_c));
}

#[test]
fn what_a_neighbour_may_still_take_is_not_known_to_be_there() {
    let (neighbours, a, b) = (Neighbours::default(), Shadow::default(), Shadow::default());
    let of_a = extent(&neighbours, BLOCK..BLOCK + 4096);
    let of_b = extent(&neighbours, BLOCK + 4096..BLOCK + 8192);
    let all = of_b.addresses.clone();
    let user = |buffer, after_all| User {
        buffer,
        after_own: true,
        after_all,
        before: Later::OfTheBuffer,
    };
    a.touched(&of_a, By::Reader(Place::Device(1)), &user(1, &|| false));
    for _ in 0..2 {
        b.moved(&of_b, all.clone(), GPU, &user(2, &|| false));
        assert!(
            !b.is_there(&of_b, all.clone(), GPU),
            "the read may come later"
        );
    }
    b.moved(&of_b, all.clone(), GPU, &user(2, &|| true));
    assert!(b.is_there(&of_b, all.clone(), GPU));
}

#[test]
fn reads_beside_a_move_of_the_buffer_count() {
    let (neighbours, shadow) = (Neighbours::default(), Shadow::default());
    let of = extent(&neighbours, BLOCK..4 * BLOCK);
    let all = of.addresses.clone();
    let user = |after_own| User {
        buffer: 1,
        after_own,
        after_all: &|| false,
        before: Later::OfTheBuffer,
    };
    shadow.touched(&of, By::Reader(Place::Device(1)), &user(true));
    shadow.moved(&of, all.clone(), GPU, &user(false));
    assert!(
        !shadow.is_there(&of, 2 * BLOCK..3 * BLOCK, GPU),
        "not even the middle"
    );
    shadow.moved(&of, all.clone(), GPU, &user(true));
    assert!(shadow.is_there(&of, all, GPU));
}

#[test]
fn reading_read_mostly_memory_moves_nothing() {
    let (neighbours, shadow) = (Neighbours::default(), Shadow::default());
    let of = extent(&neighbours, 0..BLOCK);
    shadow.set_read_mostly();
    shadow.moved(&of, 0..BLOCK, GPU, &ALONE);
    shadow.touched(&of, By::Reader(Place::Host), &ALONE);
    assert!(shadow.is_there(&of, 0..BLOCK, GPU));
    shadow.touched(&of, By::Writer(Place::Host), &ALONE);
    assert!(!shadow.is_there(&of, 0..BLOCK, GPU));
}

/// Once a neighbour that came after a read, and so knew where it was, vouched for work that does not come after it.
#[test]
fn what_comes_after_all_work_does_not_speak_for_others() {
    let (neighbours, a, b) = (Neighbours::default(), Shadow::default(), Shadow::default());
    let of_a = extent(&neighbours, BLOCK..BLOCK + 4096);
    let of_b = extent(&neighbours, BLOCK + 4096..BLOCK + 8192);
    let user = |buffer, before, after_own, after_all| User {
        buffer,
        after_own,
        after_all,
        before,
    };
    let reader = user(1, Later::Nothing, true, &|| false);
    a.touched(&of_a, By::Reader(Place::Device(1)), &reader);
    // On a stream that waits for the read, which `a` is prefetched beside on another one.
    let after_it = user(2, Later::OfTheBuffer, true, &|| true);
    b.moved(&of_b, of_b.addresses.clone(), GPU, &after_it);
    assert!(b.is_there(&of_b, of_b.addresses.clone(), GPU));
    let beside_it = user(1, Later::OfTheBuffer, false, &|| false);
    a.moved(&of_a, of_a.addresses.clone(), GPU, &beside_it);
    assert!(!a.is_there(&of_a, of_a.addresses.clone(), GPU));
    assert!(
        b.is_there(&of_b, of_b.addresses.clone(), GPU),
        "nothing took it away"
    );
}
