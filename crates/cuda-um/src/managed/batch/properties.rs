//! Property test: the joined ranges of any batch cover exactly the requested pages, compared with a set of pages.

use crate::managed::batch::joined;
use crate::resource::pool::advised::pages;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;
use std::ptr::without_provenance_mut;

/// The pages of an allocation. The next one begins where it ends.
const PAGES: usize = 40;

/// The size of the host's pages.
fn page() -> usize {
    pages(&(0..1)).end
}

/// The numbers of the pages that hold a range.
fn pages_of(range: &Range<usize>) -> Range<usize> {
    range.start / page()..range.end.div_ceil(page())
}

/// A range in one of three allocations.
fn range() -> impl Strategy<Value = Range<usize>> {
    let bytes = PAGES * page();
    let len = prop_oneof![1..100_usize, 1..3 * page(), 1..bytes];
    (1..=3_usize, 0..bytes, len)
        .prop_map(move |(of, start, len)| of * bytes + start..of * bytes + (start + len).min(bytes))
}

/// claim 5
#[test]
fn what_is_joined_is_what_was_asked_for() {
    let config = ProptestConfig {
        cases: crate::cases::cases(2_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let allocation = |address: usize| address / page() / PAGES;
    proptest!(config, |(asked in prop::collection::vec(range(), 0..20))| {
        let ranges = asked.iter().map(|range| {
            let bounds = [range.start, range.end].map(without_provenance_mut);
            (allocation(range.start) as u64, bounds[0]..bounds[1])
        });
        let merged = joined(ranges.collect()).into_iter();
        let merged: Vec<_> = merged.map(|range| range.start.addr()..range.end.addr()).collect();
        let pages: BTreeSet<_> = asked.iter().flat_map(pages_of).collect();
        prop_assert!(merged.iter().flat_map(pages_of).eq(pages.iter().copied()), "{:?}", merged);
        for range in &merged {
            prop_assert!(asked.iter().any(|asked| asked.start == range.start));
            prop_assert!(asked.iter().any(|asked| asked.end == range.end));
            prop_assert_eq!(allocation(range.start), allocation(range.end - 1));
        }
        let is_first = |page: &&usize| page.is_multiple_of(PAGES) || !pages.contains(&(**page - 1));
        let fewest = pages.iter().filter(is_first).count();
        prop_assert_eq!(merged.len(), fewest, "the smallest possible number of ranges");
    });
}
