//! Property test: the joined ranges of any batch cover exactly the requested pages, compared with a set of pages.

use crate::buffer::unified::UnifiedBuffer;
use crate::context::runtime::Runtime;
use crate::driver::location::Location;
use crate::managed::batch::{PrefetchBatch, allocation, joined, memory};
use crate::resource::kind::MemoryKind;
use crate::resource::pool::advised::pages;
use crate::resource::pool::{Pool, PoolOptions};
use cuda_um_sim::Sim;
use cuda_um_sys::cudaMemRangeAttribute;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

const SLAB: usize = 2 << 20;
/// Sizes in pools: buffers that share a page, adjacent ones, and distant ones. The two large ones have a slab each.
const POOLED: [usize; 10] = [
    1000,
    1000,
    300,
    5000,
    9000,
    64 << 10,
    64 << 10,
    700 << 10,
    900 << 10,
    1000 << 10,
];
const OWN: [usize; 4] = [1, 5000, 2 << 20, 2 << 20];

/// Buffers, and the number of each buffer's allocation.
struct Buffers {
    buffers: Vec<UnifiedBuffer<u8>>,
    allocations: Vec<usize>,
}

fn range() -> impl Strategy<Value = (usize, usize, usize)> {
    let end = prop_oneof![
        2 => Just(0), 2 => Just(usize::MAX), 3 => any::<usize>(), 2 => 0..3 * 4096usize,
    ];
    (0..POOLED.len() + OWN.len(), end.clone(), end)
}

/// Converts any two numbers to a range of a buffer; the whole buffer is as likely as a part.
fn within(len: usize, one: usize, other: usize) -> Range<usize> {
    let clip = |number: usize| {
        if number == usize::MAX {
            len
        } else {
            number % (len + 1)
        }
    };
    let (one, other) = (clip(one), clip(other));
    one.min(other)..one.max(other)
}

/// The numbers of the host's pages that hold a range.
fn pages_of(range: Range<usize>) -> Range<usize> {
    let page = pages(&(0..1)).end;
    range.start / page..range.end.div_ceil(page)
}

impl Buffers {
    fn address(&self, buffer: usize) -> usize {
        self.buffers[buffer].as_ptr().addr()
    }

    /// Returns the pages that a prefetch of the requested ranges moves.
    fn pages(&self, asked: &[(usize, Range<usize>)]) -> BTreeSet<(usize, usize)> {
        let pages = asked
            .iter()
            .filter(|(_, range)| !range.is_empty())
            .flat_map(|(buffer, range)| {
                let at = self.address(*buffer);
                let pages = pages_of(at + range.start..at + range.end);
                pages.map(|page| (self.allocations[*buffer], page))
            });
        pages.collect()
    }

    fn batch(&self, asked: &[(usize, Range<usize>)]) -> PrefetchBatch<'_> {
        let mut batch = PrefetchBatch::new();
        for (buffer, range) in asked {
            batch.add(self.buffers[*buffer].view(range.clone()).unwrap());
        }
        batch
    }

    fn check(&self, asked: &[(usize, Range<usize>)]) -> Result<(), TestCaseError> {
        let merged: Vec<Range<usize>> = {
            let batch = self.batch(asked);
            let ranges = memory(&batch.parts)
                .map(|(raw, part)| (allocation(raw), raw.address_range(&part.bytes)));
            let ranges = joined(ranges.collect()).into_iter();
            ranges
                .map(|range| range.start.addr()..range.end.addr())
                .collect()
        };
        let mut found = BTreeSet::new();
        for range in &merged {
            // A joined range begins and ends at bounds of requested ranges, within buffers of one allocation.
            let begins = asked.iter().find(|(buffer, part)| {
                !part.is_empty() && self.address(*buffer) + part.start == range.start
            });
            let ends = asked.iter().find(|(buffer, part)| {
                !part.is_empty() && self.address(*buffer) + part.end == range.end
            });
            let (Some((first, _)), Some((last, _))) = (begins, ends) else {
                return Err(TestCaseError::fail(format!("{range:?} of {asked:?}")));
            };
            let allocation = self.allocations[*first];
            prop_assert_eq!(allocation, self.allocations[*last]);
            for page in pages_of(range.clone()) {
                prop_assert!(
                    found.insert((allocation, page)),
                    "page {} is moved twice",
                    page
                );
            }
        }
        let pages = self.pages(asked);
        prop_assert_eq!(&found, &pages, "exactly the requested pages");
        let begins =
            |(allocation, page): &&(usize, usize)| !pages.contains(&(*allocation, page - 1));
        prop_assert_eq!(
            merged.len(),
            pages.iter().filter(begins).count(),
            "the smallest possible number of ranges"
        );
        prop_assert!(merged.len() <= asked.len());
        prop_assert!(merged.is_sorted_by(|one, next| one.end <= next.start));
        Ok(())
    }
}

/// claim 5
#[test]
fn what_is_joined_is_what_was_asked_for() {
    let sim = Sim::builder().build().unwrap();
    let device = Runtime::from_table(sim.table()).unwrap().device(0).unwrap();
    // Of one allocation each.
    device.set_pool_options(MemoryKind::Managed, None).unwrap();
    let stream = device.create_stream().unwrap();
    let pool = Pool::new(
        &device,
        MemoryKind::Managed,
        PoolOptions::default().slab_bytes(SLAB),
    )
    .unwrap();
    let mut buffers = Buffers {
        buffers: Vec::new(),
        allocations: Vec::new(),
    };
    for len in POOLED {
        let buffer = UnifiedBuffer::<u8>::zeroed_in(&pool, len).unwrap();
        // A slab is a block of addresses.
        buffers.allocations.push(buffer.as_ptr().addr() / SLAB);
        buffers.buffers.push(buffer);
    }
    for (number, len) in OWN.into_iter().enumerate() {
        buffers
            .buffers
            .push(UnifiedBuffer::zeroed(&device, len).unwrap());
        buffers.allocations.push(number);
    }
    let config = ProptestConfig {
        cases: crate::cases::cases(2_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(asked in prop::collection::vec(range(), 0..20), to_host: bool)| {
        let asked: Vec<(usize, Range<usize>)> = asked.into_iter()
            .map(|(buffer, one, other)| (buffer, within(buffers.buffers[buffer].len(), one, other)))
            .collect();
        buffers.check(&asked)?;
        let reversed: Vec<_> = asked.iter().rev().cloned().collect();
        buffers.check(&reversed)?;
        // A prefetch moves the ranges to the location.
        let location = if to_host { Location::Host } else { Location::Device(0) };
        let prefetched = buffers.batch(&asked).prefetch_on(location, &stream).unwrap();
        prop_assert!(prefetched.calls <= asked.len());
        for (buffer, range) in asked.into_iter().filter(|(_, range)| !range.is_empty()) {
            let last = cudaMemRangeAttribute::cudaMemRangeAttributeLastPrefetchLocation;
            let last = buffers.buffers[buffer].attribute(&range, last, 1).unwrap();
            prop_assert_eq!(Location::from_ordinal(last[0]), Some(location));
        }
    });
    stream.synchronize().unwrap();
    drop((buffers, pool));
    assert!(sim.misuse().is_empty(), "{:?}", sim.misuse());
}
