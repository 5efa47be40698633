//! Prefetching, through the library and by hand.

use super::{Measurement, SIZES};
use crate::Bench;
use crate::measure::Case;
use crate::raw::Kind;
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{Location, PoolOptions, UnifiedBuffer, UnifiedPool, prefetch_all};

pub(super) const MOVING: Measurement = Measurement {
    name: "prefetch_moving",
    what: "The host has just written the buffer; a prefetch to the GPU and the wait for it.",
    run: |bench, cases| run(bench, cases, must_move),
};

pub(super) const THERE: Measurement = Measurement {
    name: "prefetch_there",
    what: "64 prefetches to the GPU of what is there already; the time of one, with its share of the wait at the end.",
    run: |bench, cases| run(bench, cases, already_there),
};

pub(super) const BATCH: Measurement = Measurement {
    name: "prefetch_batch",
    what: "64 tensors of 64 KiB that the host has just written are prefetched to the GPU, and waited for: tensors of a pool as one \
           batch, tensors that are allocations of their own one by one.",
    run: |bench, cases| {
        cases.push(batch(bench)?);
        Ok(())
    },
};

/// Tensors of a batch, and elements of each.
const TENSORS: usize = 64;
const TENSOR: usize = 16 << 10;

/// Prefetches in a sample of what is there.
const IDLE: usize = 64;

fn run(
    bench: &Bench,
    cases: &mut Vec<CaseReport>,
    case: fn(&Bench, usize) -> Result<CaseReport>,
) -> Result<()> {
    for bytes in bench.settings.sizes(&SIZES) {
        cases.push(case(bench, bytes)?);
    }
    Ok(())
}

fn batch(bench: &Bench) -> Result<CaseReport> {
    let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
    let pool = UnifiedPool::new(device, PoolOptions::default())?;
    let mut pooled = (0..TENSORS)
        .map(|_| pool.zeroed::<f32>(TENSOR))
        .collect::<Result<Vec<_>, _>>()?;
    let mut own = (0..TENSORS)
        .map(|_| raw.allocate(Kind::Managed, TENSOR))
        .collect::<Result<Vec<_>>>()?;
    let elements = TENSORS * TENSOR;
    let mut case = Case::new("64 × 64 KiB", elements * 4, elements);
    case.ours("cuda-um, pool and one batch", |round| {
        for (tensor, source) in pooled.iter_mut().zip(round.source.chunks(TENSOR)) {
            tensor.prefetch(Location::Host, stream)?;
            tensor.host_mut()?.copy_from_slice(source);
        }
        let all: Vec<_> = pooled.iter().collect();
        let time = round.clock.time(|| {
            prefetch_all(&all, device, stream)?;
            Ok(stream.synchronize()?)
        })?;
        for (tensor, back) in pooled.iter().zip(round.back.chunks_mut(TENSOR)) {
            tensor.copy_to_host(back)?;
        }
        round.verify_back(1.0)?;
        Ok(time)
    });
    case.raw("cudaMemPrefetchAsync, one by one", |round| {
        own.iter()
            .try_for_each(|tensor| raw.prefetch(tensor, false))?;
        raw.synchronize()?;
        for (tensor, source) in own.iter_mut().zip(round.source.chunks(TENSOR)) {
            tensor.host_mut().copy_from_slice(source);
        }
        let time = round.clock.time(|| {
            own.iter()
                .try_for_each(|tensor| raw.prefetch(tensor, true))?;
            raw.synchronize()
        })?;
        for (tensor, back) in own.iter().zip(round.back.chunks_mut(TENSOR)) {
            raw.copy_to_slice(tensor, back)?;
        }
        round.verify_back(1.0)?;
        Ok(time)
    });
    Ok(case.run(&bench.clock, &bench.settings))
}

fn must_move(bench: &Bench, bytes: usize) -> Result<CaseReport> {
    let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
    let mut unified = UnifiedBuffer::<f32>::zeroed(device, bytes / 4)?;
    let mut managed = raw.allocate(Kind::Managed, bytes / 4)?;
    let mut case = Case::of_bytes(bytes);
    case.ours("cuda-um", |round| {
        unified.prefetch(Location::Host, stream)?;
        unified.host_mut()?.copy_from_slice(round.source);
        let time = round.clock.time(|| {
            unified.prefetch(device, stream)?;
            Ok(stream.synchronize()?)
        })?;
        unified.copy_to_host(round.back)?;
        round.verify_back(1.0)?;
        Ok(time)
    });
    case.raw("cudaMemPrefetchAsync", |round| {
        raw.prefetch(&managed, false)?;
        raw.synchronize()?;
        managed.host_mut().copy_from_slice(round.source);
        let time = round.clock.time(|| {
            raw.prefetch(&managed, true)?;
            raw.synchronize()
        })?;
        raw.copy_to_slice(&managed, round.back)?;
        round.verify_back(1.0)?;
        Ok(time)
    });
    Ok(case.run(&bench.clock, &bench.settings))
}

fn already_there(bench: &Bench, bytes: usize) -> Result<CaseReport> {
    let (raw, device, stream) = (&bench.raw, &bench.device, &bench.stream);
    let mut unified = UnifiedBuffer::<f32>::zeroed(device, bytes / 4)?;
    let mut managed = raw.allocate(Kind::Managed, bytes / 4)?;
    let mut case = Case::of_bytes(bytes);
    case.ours("cuda-um", |round| {
        unified.copy_from_host(round.source)?;
        unified.prefetch(device, stream)?;
        stream.synchronize()?;
        let time = round.clock.time(|| {
            (0..IDLE).try_for_each(|_| unified.prefetch(device, stream))?;
            Ok(stream.synchronize()?)
        })?;
        unified.copy_to_host(round.back)?;
        round.verify_back(1.0)?;
        Ok(time / IDLE as u32)
    });
    case.raw("cudaMemPrefetchAsync", |round| {
        raw.copy_from_slice(&mut managed, round.source)?;
        raw.prefetch(&managed, true)?;
        raw.synchronize()?;
        let time = round.clock.time(|| {
            (0..IDLE).try_for_each(|_| raw.prefetch(&managed, true))?;
            raw.synchronize()
        })?;
        raw.copy_to_slice(&managed, round.back)?;
        round.verify_back(1.0)?;
        Ok(time / IDLE as u32)
    });
    Ok(case.run(&bench.clock, &bench.settings))
}
