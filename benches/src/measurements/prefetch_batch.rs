//! Many small tensors to the GPU at once.

use super::measurement::Measurement;
use crate::Bench;
use crate::measure::{Budget, Case, Round};
use crate::raw::{Kind, Memory, Raw};
use crate::report::{CaseReport, Kind as Who};
use anyhow::Result;
use cuda_um::{Location, MemoryKind, Pool, PoolOptions, UnifiedBuffer, managed::PrefetchBatch};
use std::time::Duration;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "prefetch_batch",
    what: "64 tensors of 64 KiB that the host has just written are prefetched to the GPU, including the wait: tensors of a pool as one \
           batch; tensors in separate allocations, one by one and by cudaMemPrefetchBatchAsync; and tensors that a careful \
           programmer has put into one allocation, by one prefetch.",
    seconds: 5,
    run: |bench, budget, cases| {
        cases.push(case(bench, budget)?);
        Ok(())
    },
    notes: super::measurement::no_notes,
};

/// Tensors of a batch, and elements of each.
const TENSORS: usize = 64;
const TENSOR: usize = 16 << 10;

fn case(bench: &Bench, budget: &mut Budget) -> Result<CaseReport> {
    let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
    let pool = Pool::new(device, MemoryKind::Managed, PoolOptions::default())?;
    let mut pooled = (0..TENSORS)
        .map(|_| UnifiedBuffer::<f32>::zeroed_in(&pool, TENSOR))
        .collect::<Result<Vec<_>, _>>()?;
    let own = || {
        (0..TENSORS)
            .map(|_| raw.allocate(Kind::Managed, TENSOR))
            .collect::<Result<Vec<_>>>()
    };
    let (mut one_by_one, mut batched) = (own()?, own()?);
    let elements = TENSORS * TENSOR;
    let mut slab = [raw.allocate(Kind::Managed, elements)?];
    let mut case = Case::new("64 × 64 KiB", elements * 4, elements);
    case.ours("cuda-um, pool and one batch", |round| {
        for (tensor, source) in pooled.iter_mut().zip(round.source.chunks(TENSOR)) {
            tensor.prefetch_on(Location::Host, stream)?.require()?;
            tensor.host_mut()?.copy_from_slice(source);
        }
        let all: Vec<_> = pooled.iter().collect();
        let time = round.clock.time(|| {
            let mut batch = PrefetchBatch::new();
            for tensor in &all {
                batch.add(*tensor);
            }
            batch.prefetch_on(device, stream)?;
            Ok(stream.synchronize()?)
        })?;
        for (tensor, back) in pooled.iter().zip(round.back.chunks_mut(TENSOR)) {
            tensor.copy_to_host(back)?;
        }
        round.verified(time, 1.0)
    });
    case.raw("cudaMemPrefetchAsync, one by one", |round| {
        sample(raw, &mut one_by_one, round, |all| {
            all.iter().try_for_each(|one| raw.prefetch(one, true))
        })
    });
    let batch = "cudaMemPrefetchBatchAsync";
    match raw.has_prefetch_batch() {
        true => case.raw(batch, |round| {
            sample(raw, &mut batched, round, |all| raw.prefetch_batch(all))
        }),
        false => case.skipped(Who::Raw, batch, "CUDA has it from 13.0 on"),
    }
    case.raw("one slab, one cudaMemPrefetchAsync", |round| {
        sample(raw, &mut slab, round, |all| {
            all.iter().try_for_each(|one| raw.prefetch(one, true))
        })
    });
    Ok(case.run(&bench.clock, &bench.settings, budget))
}

/// The host writes all tensors, `prefetch` is timed with the wait, and the moved data are verified.
fn sample(
    raw: &Raw,
    memories: &mut [Memory],
    round: &mut Round<'_>,
    prefetch: impl Fn(&[Memory]) -> Result<()>,
) -> Result<Duration> {
    memories
        .iter()
        .try_for_each(|memory| raw.prefetch(memory, false))?;
    raw.synchronize()?;
    let each = round.source.len() / memories.len();
    for (memory, source) in memories.iter_mut().zip(round.source.chunks(each)) {
        memory.host_mut().copy_from_slice(source);
    }
    let time = round.clock.time(|| {
        prefetch(memories)?;
        raw.synchronize()
    })?;
    for (memory, back) in memories.iter().zip(round.back.chunks_mut(each)) {
        raw.copy_to_slice(memory, back)?;
    }
    round.verified(time, 1.0)
}
