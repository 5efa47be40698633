//! Copies.

use super::session::{LARGE, Outcome, SMALL, Session, fresh, slope, verify};
use cuda_um::{
    DeviceBuffer, Location, PinnedBuffer, UnifiedBuffer,
    buffer::{Readable, Writable},
    resource::{DeviceMemory, ManagedMemory, PinnedMemory},
};

/// From this size on, a copy uses all threads.
const ALL_THREADS: usize = 16 << 20;

/// Seconds for a copy and the wait.
fn copy(
    session: &Session,
    bytes: usize,
    from: &impl Readable<Element = f32>,
    to: &mut impl Writable<Element = f32>,
) -> Outcome<f64> {
    session.median(bytes, |_| {
        session.clock.time(|| {
            session.stream.copy(from, to)?;
            Ok(session.stream.synchronize()?)
        })
    })
}

/// Seconds for a copy from pinned memory, and back; their mean.
fn there_and_back(
    session: &Session,
    bytes: usize,
    there: &mut impl Writable<Element = f32>,
) -> Outcome<f64> {
    let source = fresh(bytes, 4);
    let mut pinned = PinnedBuffer::from_slice_in(&PinnedMemory::new(&session.device), &source)?;
    let to = copy(session, bytes, &pinned, there)?;
    pinned.host_mut()?.fill(0.0);
    let back = copy(session, bytes, there, &mut pinned)?;
    verify(&pinned.host()?, &source, 1.0)?;
    Ok((to + back) / 2.0)
}

/// Copies between pinned and device memory.
pub(super) fn pinned(session: &mut Session) -> Outcome<()> {
    let seconds = |bytes| {
        let mut there = DeviceBuffer::zeroed_in(
            &DeviceMemory::new(&session.device),
            bytes / size_of::<f32>(),
        )?;
        there_and_back(session, bytes, &mut there)
    };
    let large = LARGE;
    let (small, whole) = (seconds(SMALL)?, seconds(large)?);
    let rate = slope((SMALL, small), (large, whole));
    session.rate("pinned_bytes_per_s", rate);
    let fixed = small - SMALL as f64 / rate - session.enqueue;
    session.time("copy_us", fixed);
    Ok(())
}

/// Managed memory that a prefetch has moved to the device, if the device can.
fn managed_memory(session: &Session, elements: &[f32]) -> Outcome<UnifiedBuffer<f32>> {
    // No block of a pool, so that the limit of memory holds.
    let memory = ManagedMemory::new(&session.device);
    let buffer = UnifiedBuffer::from_slice_in(&memory, elements)?;
    settle(session, &buffer)?;
    Ok(buffer)
}

fn settle(session: &Session, buffer: &UnifiedBuffer<f32>) -> Outcome<()> {
    if session.device.capabilities().concurrent_managed_access {
        buffer
            .prefetch_on(Location::from(&session.device), &session.stream)?
            .require()?;
    }
    Ok(session.stream.synchronize()?)
}

fn has_managed_memory(session: &mut Session, keys: &[&str]) -> bool {
    let obstacle = session.device.managed_memory_obstacle();
    if let Some(obstacle) = &obstacle {
        keys.iter().for_each(|key| session.note(key, obstacle));
    }
    obstacle.is_none()
}

/// Small copies between pinned and managed memory, compared with device memory.
pub(super) fn managed(session: &mut Session) -> Outcome<()> {
    if !has_managed_memory(session, &["copy_managed_us"]) {
        return Ok(());
    }
    let mut there = managed_memory(session, &fresh(SMALL, 5))?;
    let seconds = there_and_back(session, SMALL, &mut there)?;
    let model = &session.model;
    let plain = model.copy.as_secs_f64() + SMALL as f64 / model.pinned_rate + session.enqueue;
    session.time("copy_managed_us", seconds - plain);
    Ok(())
}

/// Seconds for a copy from pageable memory into managed memory that is on the device, and back.
fn through_threads(session: &Session, bytes: usize) -> Outcome<(f64, f64)> {
    let source = fresh(bytes, 6);
    let mut back = vec![f32::NAN; source.len()];
    let mut buffer = managed_memory(session, &source)?;
    let there = session.median(bytes, |_| {
        settle(session, &buffer)?;
        let copy = || Outcome::Ok(buffer.copy_from_host(&source)?);
        session.clock.time(copy)
    })?;
    let home = session.median(bytes, |_| {
        settle(session, &buffer)?;
        let copy = || Outcome::Ok(buffer.copy_to_host(&mut back)?);
        session.clock.time(copy)
    })?;
    verify(&back, &source, 1.0)?;
    Ok((there, home))
}

/// Large copies that several threads stage through pinned memory.
pub(super) fn staged(session: &mut Session) -> Outcome<()> {
    let keys = [
        "staged_to_device_bytes_per_s",
        "staged_to_host_bytes_per_s",
        "staged_us",
    ];
    if session.clock.is_virtual() || !has_managed_memory(session, &keys) {
        return Ok(());
    }
    // Two sizes that use the same number of threads.
    let small = ALL_THREADS.max(LARGE / 4);
    let large = LARGE.max(3 * small);
    let (part, whole) = (
        through_threads(session, small)?,
        through_threads(session, large)?,
    );
    let mut fixed = 0.0;
    for (key, part, whole) in [(keys[0], part.0, whole.0), (keys[1], part.1, whole.1)] {
        let rate = slope((small, part), (large, whole));
        session.rate(key, rate);
        fixed += (part - small as f64 / rate) / 2.0;
    }
    // With a rate that makes no sense, so does the rest.
    if keys[..2].iter().any(|key| !session.measured.contains(key)) {
        session.note(keys[2], "a rate of staged copies was not measured");
        return Ok(());
    }
    session.time("staged_us", fixed);
    Ok(())
}
