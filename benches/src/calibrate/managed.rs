//! Prefetches, fresh managed memory, advice.

use super::bench::{Bench, SMALL, fresh, slope, verify};
use crate::raw::Kind;
use anyhow::Result;

/// Size of the blocks that the driver checks one by one.
const BLOCK: usize = 2 << 20;

/// Checks that managed memory can migrate; otherwise notes the names as not measured.
fn migrates(bench: &mut Bench, names: &[&str]) -> bool {
    let can = bench.device.capabilities().concurrent_managed_access;
    if !can {
        for name in names {
            bench.note(name, "this device has no concurrent managed access");
        }
    }
    can
}

/// Seconds for a prefetch to the device, for another one with all data in place, and for one to the host; verified.
fn prefetch(bench: &Bench, bytes: usize) -> Result<[f64; 3]> {
    let raw = &bench.raw;
    let source = fresh(bytes, 5);
    let mut memory = raw.allocate(Kind::Managed, source.len())?;
    memory.host_mut().copy_from_slice(&source);
    let to = |device| {
        bench.clock.time(|| {
            raw.prefetch(&memory, device)?;
            raw.synchronize()
        })
    };
    let there = bench.median(bytes, |_| {
        to(false)?;
        to(true)
    })?;
    let resident = bench.median(bytes, |_| to(true))?;
    let home = bench.median(bytes, |_| {
        to(true)?;
        to(false)
    })?;
    verify(memory.host(), &source, 1.0)?;
    Ok([there, resident, home])
}

pub(super) fn prefetches(bench: &mut Bench) -> Result<()> {
    let figures = [
        "prefetch_us",
        "prefetch_resident_us",
        "prefetch_block_us",
        "prefetch_to_device_bytes_per_s",
        "prefetch_to_host_bytes_per_s",
    ];
    if !migrates(bench, &figures) {
        return Ok(());
    }
    let large = bench.plan.large;
    let [there, resident, home] = prefetch(bench, SMALL)?;
    let [whole_there, whole_resident, whole_home] = prefetch(bench, large)?;
    let rate = slope((SMALL, there), (large, whole_there));
    bench.rate("prefetch_to_device_bytes_per_s", rate);
    bench.time("prefetch_us", there - SMALL as f64 / rate - bench.enqueue());
    bench.rate(
        "prefetch_to_host_bytes_per_s",
        slope((SMALL, home), (large, whole_home)),
    );
    let block = (whole_resident - resident) / (large / BLOCK - 1) as f64;
    bench.time("prefetch_block_us", block);
    bench.time("prefetch_resident_us", resident - block - bench.enqueue());
    Ok(())
}

/// Fresh managed memory that a prefetch populates on the device.
pub(super) fn populates(bench: &mut Bench) -> Result<()> {
    if !migrates(bench, &["device_populate_bytes_per_s"]) {
        return Ok(());
    }
    let raw = bench.raw.clone();
    let large = bench.plan.large;
    let seconds = |bytes: usize| {
        bench.median(bytes, |_| {
            let memory = raw.allocate(Kind::Managed, bytes / 4)?;
            let time = bench.clock.time(|| {
                raw.prefetch(&memory, true)?;
                raw.synchronize()
            })?;
            memory.free()?;
            Ok(time)
        })
    };
    let (part, whole) = (seconds(large / 4)?, seconds(large)?);
    bench.rate(
        "device_populate_bytes_per_s",
        slope((large / 4, part), (large, whole)),
    );
    Ok(())
}

/// Advice that maps nothing, and advice that maps memory that the host has written.
pub(super) fn advice(bench: &mut Bench) -> Result<()> {
    if !migrates(bench, &["advise_us", "map_bytes_per_s"]) {
        return Ok(());
    }
    let raw = bench.raw.clone();
    let large = bench.plan.large;
    let small = raw.allocate(Kind::Managed, SMALL / 4)?;
    let advise = bench.median(SMALL, |_| {
        let time = bench.clock.time(|| raw.advise_read_mostly(&small))?;
        raw.unadvise_read_mostly(&small)?;
        Ok(time)
    })?;
    let mut memory = raw.allocate(Kind::Managed, large / 4)?;
    memory.host_mut().fill(1.0);
    let mapping = bench.median(large, |_| {
        let time = bench.clock.time(|| raw.advise_accessed_by(&memory, true))?;
        raw.advise_accessed_by(&memory, false)?;
        Ok(time)
    })?;
    bench.time("advise_us", advise);
    bench.rate("map_bytes_per_s", large as f64 / (mapping - advise));
    Ok(())
}
