//! Kernels, and explicit copies.

use super::bench::{Bench, SMALL, fresh, slope, verify};
use crate::raw::{Kind, Memory, Raw};
use anyhow::Result;
use cuda_um::UnifiedBuffer;

/// The smallest copy from pageable memory that the driver stages.
const STAGED: usize = 64 << 10;

/// Seconds for `output = 2 × input` and the wait; verified.
fn scale(bench: &Bench, from: Kind, to: Kind, bytes: usize) -> Result<f64> {
    let raw = &bench.raw;
    let source = fresh(bytes, 1);
    let mut input = raw.allocate(from, source.len())?;
    let mut output = raw.allocate(to, source.len())?;
    raw.copy_from_slice(&mut input, &source)?;
    raw.wait_for_all()?;
    let seconds = bench.median(bytes, |_| {
        bench.clock.time(|| {
            raw.scale(&input, &mut output, 2.0)?;
            raw.synchronize()
        })
    })?;
    let mut back = vec![f32::NAN; source.len()];
    raw.copy_to_slice(&output, &mut back)?;
    verify(&back, &source, 2.0)?;
    Ok(seconds)
}

/// A kernel in device memory.
pub(super) fn kernels(bench: &mut Bench) -> Result<()> {
    let large = bench.plan.large;
    let small = scale(bench, Kind::Device, Kind::Device, SMALL)?;
    let whole = scale(bench, Kind::Device, Kind::Device, large)?;
    // It reads and writes the same number of bytes.
    let rate = slope((2 * SMALL, small), (2 * large, whole));
    bench.rate("kernel_bytes_per_s", rate);
    let kernel = small - bench.launch() - (2 * SMALL) as f64 / rate;
    bench.time("kernel_us", kernel);
    Ok(())
}

/// A kernel that reads mapped memory, and one that writes it; the other side is device memory.
pub(super) fn mapped(bench: &mut Bench) -> Result<()> {
    let large = bench.plan.large;
    // Additional time compared with the same kernel on device memory.
    let longer = |bytes: usize| {
        let read = scale(bench, Kind::Pinned, Kind::Device, bytes)?;
        let written = scale(bench, Kind::Device, Kind::Pinned, bytes)?;
        let local = bench.launch() + bench.kernel() + bytes as f64 / bench.model.kernel_rate;
        anyhow::Ok((read + written) / 2.0 - local)
    };
    let (small, whole) = (longer(SMALL)?, longer(large)?);
    let rate = slope((SMALL, small), (large, whole));
    bench.rate("remote_bytes_per_s", rate);
    bench.time("remote_us", small - SMALL as f64 / rate);
    Ok(())
}

/// Seconds for a copy between two kinds of CUDA memory and the wait; verified.
fn copy(bench: &Bench, from: Kind, to: Kind, bytes: usize) -> Result<f64> {
    let raw = &bench.raw;
    let source = fresh(bytes, 2);
    let mut input = raw.allocate(from, source.len())?;
    let mut output = raw.allocate(to, source.len())?;
    raw.copy_from_slice(&mut input, &source)?;
    raw.wait_for_all()?;
    let seconds = bench.median(bytes, |_| {
        bench.clock.time(|| {
            raw.copy(&input, &mut output)?;
            raw.synchronize()
        })
    })?;
    let mut back = vec![f32::NAN; source.len()];
    raw.copy_to_slice(&output, &mut back)?;
    verify(&back, &source, 1.0)?;
    Ok(seconds)
}

/// Copies between pinned and device memory, in both directions, and inside the device.
pub(super) fn pinned(bench: &mut Bench) -> Result<()> {
    let large = bench.plan.large;
    let both = |bytes| {
        let there = copy(bench, Kind::Pinned, Kind::Device, bytes)?;
        let back = copy(bench, Kind::Device, Kind::Pinned, bytes)?;
        anyhow::Ok((there + back) / 2.0)
    };
    let (small, whole) = (both(SMALL)?, both(large)?);
    let inside = |bytes| copy(bench, Kind::Device, Kind::Device, bytes);
    let (inside_small, inside_whole) = (inside(SMALL)?, inside(large)?);
    let rate = slope((SMALL, small), (large, whole));
    bench.rate("pinned_bytes_per_s", rate);
    let fixed = small - SMALL as f64 / rate - bench.enqueue();
    bench.time("copy_us", fixed);
    let rate = slope((SMALL, inside_small), (large, inside_whole));
    bench.rate("device_bytes_per_s", rate);
    Ok(())
}

/// Seconds for `cudaMemcpy` from pageable memory, and to it; verified.
fn plain(bench: &Bench, kind: Kind, bytes: usize) -> Result<(f64, f64)> {
    let raw = &bench.raw;
    let source = fresh(bytes, 3);
    let mut back = vec![f32::NAN; source.len()];
    let mut memory = raw.allocate(kind, source.len())?;
    let settle = |raw: &Raw, memory: &Memory| {
        if kind == Kind::Managed && bench.device.capabilities().concurrent_managed_access {
            raw.prefetch(memory, true)?;
        }
        raw.wait_for_all()
    };
    let there = bench.median(bytes, |_| {
        settle(raw, &memory)?;
        bench
            .clock
            .time(|| raw.copy_from_slice(&mut memory, &source))
    })?;
    let home = bench.median(bytes, |_| {
        settle(raw, &memory)?;
        bench.clock.time(|| raw.copy_to_slice(&memory, &mut back))
    })?;
    verify(&back, &source, 1.0)?;
    Ok((there, home))
}

/// Copies between pageable memory and the device.
pub(super) fn pageable(bench: &mut Bench) -> Result<()> {
    let large = bench.plan.large;
    let (there, back) = plain(bench, Kind::Device, SMALL)?;
    let (staged_there, staged_back) = plain(bench, Kind::Device, STAGED)?;
    let (whole_there, whole_back) = plain(bench, Kind::Device, large)?;
    let rate = slope(
        (2 * STAGED, staged_there + staged_back),
        (2 * large, whole_there + whole_back),
    );
    bench.rate("pageable_bytes_per_s", rate);
    let longer = (staged_there + staged_back - there - back) / 2.0;
    bench.time("staging_us", longer - (STAGED - SMALL) as f64 / rate);
    let (managed_there, managed_back) = plain(bench, Kind::Managed, SMALL)?;
    let longer = (managed_there + managed_back - there - back) / 2.0;
    bench.time("copy_managed_us", longer);
    Ok(())
}

/// Seconds for a copy by cuda-um into managed memory that is on the device, and back; verified.
fn through_threads(bench: &Bench, bytes: usize) -> Result<(f64, f64)> {
    let source = fresh(bytes, 4);
    let mut back = vec![f32::NAN; source.len()];
    let mut buffer = UnifiedBuffer::<f32>::from_slice(&bench.device, &source)?;
    let settle = |buffer: &UnifiedBuffer<f32>| {
        buffer.prefetch(&bench.device, &bench.stream)?;
        anyhow::Ok(bench.stream.synchronize()?)
    };
    let there = bench.median(bytes, |_| {
        settle(&buffer)?;
        bench.clock.time(|| Ok(buffer.copy_from_host(&source)?))
    })?;
    let home = bench.median(bytes, |_| {
        settle(&buffer)?;
        bench.clock.time(|| Ok(buffer.copy_to_host(&mut back)?))
    })?;
    verify(&back, &source, 1.0)?;
    Ok((there, home))
}

/// Copies of cuda-um that several threads stage through pinned memory.
pub(super) fn staged(bench: &mut Bench) -> Result<()> {
    if bench.simulated() {
        return Ok(());
    }
    let large = bench.plan.large;
    // Two large sizes that use the same number of threads.
    let part = through_threads(bench, large / 4)?;
    let whole = through_threads(bench, large)?;
    for (key, part, whole) in [
        ("staged_to_device_bytes_per_s", part.0, whole.0),
        ("staged_to_host_bytes_per_s", part.1, whole.1),
    ] {
        bench.rate(key, slope((large / 4, part), (large, whole)));
    }
    Ok(())
}
