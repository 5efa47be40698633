//! Prefetches, fresh managed memory, advice.

use crate::raw::{Kind, Raw};
use anyhow::Result;
use std::rc::Rc;
use um_kernels::calibrate::{SMALL, Session, fresh, slope, verify};

/// Size of the blocks that the driver checks one by one.
const BLOCK: usize = 2 << 20;

/// Checks that managed memory can migrate; otherwise notes the names as not measured.
fn migrates(session: &mut Session, names: &[&str]) -> bool {
    let can = session.device.capabilities().concurrent_managed_access;
    if !can {
        for name in names {
            session.note(name, "this device has no concurrent managed access");
        }
    }
    can
}

/// Seconds for a prefetch to the device, for another one with all data in place, and for one to the host; verified.
fn prefetch(session: &Session, raw: &Rc<Raw>, bytes: usize) -> Result<[f64; 3]> {
    let source = fresh(bytes, 5);
    let mut memory = raw.allocate(Kind::Managed, source.len())?;
    memory.host_mut().copy_from_slice(&source);
    let to = |device| {
        session.clock.time(|| {
            raw.prefetch(&memory, device)?;
            raw.synchronize()
        })
    };
    let there = session.median(bytes, |_| {
        to(false)?;
        to(true)
    })?;
    let resident = session.median(bytes, |_| to(true))?;
    let home = session.median(bytes, |_| {
        to(true)?;
        to(false)
    })?;
    verify(memory.host(), &source, 1.0)?;
    Ok([there, resident, home])
}

pub(super) fn prefetches(session: &mut Session, raw: &Rc<Raw>) -> Result<()> {
    let figures = [
        "prefetch_us",
        "prefetch_resident_us",
        "prefetch_block_us",
        "prefetch_to_device_bytes_per_s",
        "prefetch_to_host_bytes_per_s",
    ];
    if !migrates(session, &figures) {
        return Ok(());
    }
    let large = session.plan.large;
    let [there, resident, home] = prefetch(session, raw, SMALL)?;
    let [whole_there, whole_resident, whole_home] = prefetch(session, raw, large)?;
    let rate = slope((SMALL, there), (large, whole_there));
    session.rate("prefetch_to_device_bytes_per_s", rate);
    session.time(
        "prefetch_us",
        there - SMALL as f64 / rate - session.model.enqueue.as_secs_f64(),
    );
    session.rate(
        "prefetch_to_host_bytes_per_s",
        slope((SMALL, home), (large, whole_home)),
    );
    let block = (whole_resident - resident) / (large / BLOCK - 1) as f64;
    session.time("prefetch_block_us", block);
    session.time(
        "prefetch_resident_us",
        resident - block - session.model.enqueue.as_secs_f64(),
    );
    Ok(())
}

/// Fresh managed memory that a prefetch populates on the device.
pub(super) fn populates(session: &mut Session, raw: &Rc<Raw>) -> Result<()> {
    if !migrates(session, &["device_populate_bytes_per_s"]) {
        return Ok(());
    }
    let large = session.plan.large;
    let seconds = |bytes: usize| {
        session.median(bytes, |_| {
            let memory = raw.allocate(Kind::Managed, bytes / 4)?;
            let time = session.clock.time(|| {
                raw.prefetch(&memory, true)?;
                raw.synchronize()
            })?;
            memory.free()?;
            anyhow::Ok(time)
        })
    };
    let (part, whole) = (seconds(large / 4)?, seconds(large)?);
    session.rate(
        "device_populate_bytes_per_s",
        slope((large / 4, part), (large, whole)),
    );
    Ok(())
}

/// Advice that maps nothing, and advice that maps memory that the host has written.
pub(super) fn advice(session: &mut Session, raw: &Rc<Raw>) -> Result<()> {
    if !migrates(session, &["advise_us", "map_bytes_per_s"]) {
        return Ok(());
    }
    let large = session.plan.large;
    let small = raw.allocate(Kind::Managed, SMALL / 4)?;
    let advise = session.median(SMALL, |_| {
        let time = session.clock.time(|| raw.advise_read_mostly(&small))?;
        raw.unadvise_read_mostly(&small)?;
        anyhow::Ok(time)
    })?;
    let mut memory = raw.allocate(Kind::Managed, large / 4)?;
    memory.host_mut().fill(1.0);
    let mapping = session.median(large, |_| {
        let time = session
            .clock
            .time(|| raw.advise_accessed_by(&memory, true))?;
        raw.advise_accessed_by(&memory, false)?;
        anyhow::Ok(time)
    })?;
    session.time("advise_us", advise);
    session.rate("map_bytes_per_s", large as f64 / (mapping - advise));
    Ok(())
}
