//! Copies inside the device, and by the driver from pageable memory.

use crate::raw::{Kind, Raw};
use anyhow::Result;
use std::rc::Rc;
use um_kernels::calibrate::{SMALL, Session, fresh, slope, verify};

/// The smallest copy from pageable memory that the driver stages.
const STAGED: usize = 64 << 10;

/// Seconds for a copy inside the device and the wait; verified.
fn copy(session: &Session, raw: &Rc<Raw>, bytes: usize) -> Result<f64> {
    let source = fresh(bytes, 2);
    let mut input = raw.allocate(Kind::Device, source.len())?;
    let mut output = raw.allocate(Kind::Device, source.len())?;
    raw.copy_from_slice(&mut input, &source)?;
    raw.wait_for_all()?;
    let seconds = session.median(bytes, |_| {
        session.clock.time(|| {
            raw.copy(&input, &mut output)?;
            raw.synchronize()
        })
    })?;
    let mut back = vec![f32::NAN; source.len()];
    raw.copy_to_slice(&output, &mut back)?;
    verify(&back, &source, 1.0)?;
    Ok(seconds)
}

/// Copies inside the device.
pub(super) fn inside(session: &mut Session, raw: &Rc<Raw>) -> Result<()> {
    let large = session.plan.large;
    let (small, whole) = (copy(session, raw, SMALL)?, copy(session, raw, large)?);
    session.rate("device_bytes_per_s", slope((SMALL, small), (large, whole)));
    Ok(())
}

/// Seconds for `cudaMemcpy` from pageable memory to the device, and back; verified.
fn plain(session: &Session, raw: &Rc<Raw>, bytes: usize) -> Result<(f64, f64)> {
    let source = fresh(bytes, 3);
    let mut back = vec![f32::NAN; source.len()];
    let mut memory = raw.allocate(Kind::Device, source.len())?;
    let there = session.median(bytes, |_| {
        raw.wait_for_all()?;
        let copy = || raw.copy_from_slice(&mut memory, &source);
        session.clock.time(copy)
    })?;
    let home = session.median(bytes, |_| {
        raw.wait_for_all()?;
        session.clock.time(|| raw.copy_to_slice(&memory, &mut back))
    })?;
    verify(&back, &source, 1.0)?;
    Ok((there, home))
}

/// Copies between pageable memory and the device.
pub(super) fn pageable(session: &mut Session, raw: &Rc<Raw>) -> Result<()> {
    let large = session.plan.large;
    let (there, back) = plain(session, raw, SMALL)?;
    let (staged_there, staged_back) = plain(session, raw, STAGED)?;
    let (whole_there, whole_back) = plain(session, raw, large)?;
    let rate = slope(
        (2 * STAGED, staged_there + staged_back),
        (2 * large, whole_there + whole_back),
    );
    session.rate("pageable_bytes_per_s", rate);
    let longer = (staged_there + staged_back - there - back) / 2.0;
    session.time("staging_us", longer - (STAGED - SMALL) as f64 / rate);
    Ok(())
}
