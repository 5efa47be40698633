//! Page faults. The times come from the machine. A driver reports no fault counts without a profiler, so the simulator does the
//! same work and counts the faults. The resulting values make the simulator's times match the measured ones.

use crate::raw::{Kind, Memory, Raw};
use anyhow::Result;
use cuda_um_sim::{Counters, Sim};
use std::rc::Rc;
use um_kernels::calibrate::{SMALL, Session, fresh, verify};

/// Elements of a page.
const PAGE: usize = 4096 / size_of::<f32>();
/// Bytes for the host's first access: more take longer, and give no better result.
const FIRST_TOUCH: usize = 8 << 20;
const NO_FIT: &str = "the times fit no number of faults";

/// The host reads every page of memory that is on the device.
fn host_reads(memory: &Memory) -> f32 {
    memory.host().iter().step_by(PAGE).sum()
}

/// The host writes every page of fresh memory.
fn host_writes(memory: &mut Memory) {
    memory
        .host_mut()
        .iter_mut()
        .step_by(PAGE)
        .for_each(|first| *first = 1.0);
}

/// A kernel reads memory that is on the host.
fn kernel_reads(raw: &Raw, memory: &Memory, output: &mut Memory) -> Result<()> {
    raw.scale(memory, output, 2.0)?;
    raw.synchronize()
}

/// The counts of the simulator for work on prepared memory of this size.
fn counted(
    bytes: usize,
    prepare: impl FnOnce(&Raw, &mut Memory) -> Result<()>,
    work: impl FnOnce(&Rc<Raw>, &mut Memory) -> Result<()>,
) -> Result<Counters> {
    um_kernels::sim::register();
    let sim = Sim::builder().build()?;
    let raw = Raw::open(&sim.table(), false)?;
    let mut memory = raw.allocate(Kind::Managed, bytes / 4)?;
    prepare(&raw, &mut memory)?;
    sim.reset_counters();
    work(&raw, &mut memory)?;
    Ok(sim.counters())
}

fn to_device(raw: &Raw, memory: &mut Memory) -> Result<()> {
    host_writes(memory);
    raw.prefetch(memory, true)?;
    raw.synchronize()
}

/// Seconds in which the host moves memory back by faults, and a kernel moves it in by faults.
fn back_and_in(session: &Session, raw: &Rc<Raw>, bytes: usize) -> Result<(f64, f64)> {
    let source = fresh(bytes, 6);
    let mut memory = raw.allocate(Kind::Managed, source.len())?;
    let mut output = raw.allocate(Kind::Device, source.len())?;
    memory.host_mut().copy_from_slice(&source);
    let expected: f32 = source.iter().step_by(PAGE).sum();
    let back = session.median(bytes, |_| {
        raw.prefetch(&memory, true)?;
        raw.synchronize()?;
        session.clock.time(|| {
            let sum = host_reads(&memory);
            anyhow::ensure!(sum == expected, "the host read {sum}, not {expected}");
            anyhow::Ok(())
        })
    })?;
    let faulted_in = session.median(bytes, |_| {
        raw.prefetch(&memory, false)?;
        raw.synchronize()?;
        session
            .clock
            .time(|| kernel_reads(raw, &memory, &mut output))
    })?;
    let mut found = vec![f32::NAN; source.len()];
    raw.copy_to_slice(&output, &mut found)?;
    verify(&found, &source, 2.0)?;
    Ok((back, faulted_in))
}

/// Seconds of the host's first access to fresh memory.
fn first_touch(session: &Session, raw: &Rc<Raw>) -> Result<f64> {
    session.median(FIRST_TOUCH, |_| {
        let mut memory = raw.allocate(Kind::Managed, FIRST_TOUCH / 4)?;
        let time = session.clock.time(|| {
            host_writes(&mut memory);
            anyhow::Ok(())
        })?;
        memory.free()?;
        anyhow::Ok(time)
    })
}

pub(super) fn faults(session: &mut Session, raw: &Rc<Raw>) -> Result<()> {
    let capabilities = session.device.capabilities();
    let migrates = !(capabilities.direct_host_access || capabilities.integrated);
    if !(capabilities.concurrent_managed_access && migrates) {
        for name in [
            "gpu_fault_group_us",
            "gpu_fault_us",
            "cpu_fault_us",
            "fault_bytes_per_s",
            "host_populate_page_us",
        ] {
            session.note(name, "managed memory does not migrate by faults here");
        }
        return Ok(());
    }
    let (small_back, small_in) = back_and_in(session, raw, SMALL)?;
    let (whole_back, whole_in) = back_and_in(session, raw, session.plan.large)?;
    let touched = first_touch(session, raw)?;
    host_faults(session, small_back, whole_back)?;
    kernel_faults(session, small_in, whole_in)?;
    populate(session, touched)
}

/// Solves count × fault + bytes × (1 / rate) = seconds, for both sizes.
fn host_faults(session: &mut Session, small: f64, whole: f64) -> Result<()> {
    let row = |bytes: usize, seconds| {
        let work = |_: &Rc<Raw>, memory: &mut Memory| {
            std::hint::black_box(host_reads(memory));
            Ok(())
        };
        let counters = counted(bytes, to_device, work)?;
        anyhow::Ok([counters.cpu_faults as f64, bytes as f64, seconds])
    };
    let solved = solve(row(SMALL, small)?, row(session.plan.large, whole)?);
    // If the driver counts in another way, one of them can be negative: then both are invalid.
    match solved {
        Some((fault, inverse_rate)) => {
            session.time("cpu_fault_us", fault);
            session.rate("fault_bytes_per_s", 1.0 / inverse_rate);
        }
        None => {
            session.note("cpu_fault_us", NO_FIT);
            session.note("fault_bytes_per_s", NO_FIT);
        }
    }
    Ok(())
}

/// Solves count × fault + groups × group = seconds, for both sizes.
fn kernel_faults(session: &mut Session, small: f64, whole: f64) -> Result<()> {
    let row = |bytes: usize, seconds| {
        let prepare = |_: &Raw, memory: &mut Memory| {
            host_writes(memory);
            Ok(())
        };
        let work = |raw: &Rc<Raw>, memory: &mut Memory| {
            let mut output = raw.allocate(Kind::Device, bytes / 4)?;
            kernel_reads(raw, memory, &mut output)
        };
        let counters = counted(bytes, prepare, work)?;
        // The remaining time without the kernel itself and the copies.
        let left = seconds
            - session.model.launch.as_secs_f64()
            - session.model.kernel.as_secs_f64()
            - (2 * bytes) as f64 / session.model.kernel_rate
            - bytes as f64 / session.model.fault_rate;
        let groups = counters.gpu_fault_groups as f64;
        anyhow::Ok([counters.gpu_faults as f64, groups, left])
    };
    match solve(row(SMALL, small)?, row(session.plan.large, whole)?) {
        Some((fault, group)) => {
            session.time("gpu_fault_us", fault);
            session.time("gpu_fault_group_us", group);
        }
        None => {
            session.note("gpu_fault_us", NO_FIT);
            session.note("gpu_fault_group_us", NO_FIT);
        }
    }
    Ok(())
}

/// The rest of the first access without its faults.
fn populate(session: &mut Session, touched: f64) -> Result<()> {
    let nothing = |_: &Raw, _: &mut Memory| Ok(());
    let writes = |_: &Rc<Raw>, memory: &mut Memory| {
        host_writes(memory);
        Ok(())
    };
    let faults = counted(FIRST_TOUCH, nothing, writes)?.cpu_faults as f64;
    let pages = (FIRST_TOUCH / 4096) as f64;
    let populate = (touched - faults * session.model.cpu_fault.as_secs_f64()) / pages;
    session.time("host_populate_page_us", populate);
    Ok(())
}

/// The two unknowns of two equations `a × x + b × y = c`; `None` unless both are positive.
fn solve(first: [f64; 3], second: [f64; 3]) -> Option<(f64, f64)> {
    let determinant = first[0] * second[1] - first[1] * second[0];
    let x = (first[2] * second[1] - first[1] * second[2]) / determinant;
    let y = (first[0] * second[2] - first[2] * second[0]) / determinant;
    (x > 0.0 && y > 0.0 && x.is_finite() && y.is_finite()).then_some((x, y))
}

#[cfg(test)]
mod tests {
    use super::solve;

    #[test]
    fn two_unknowns() {
        assert_eq!(solve([1.0, 1.0, 5.0], [2.0, 1.0, 8.0]), Some((3.0, 2.0)));
        assert_eq!(solve([1.0, 1.0, 5.0], [2.0, 2.0, 10.0]), None);
        assert_eq!(solve([1.0, 1.0, 1.0], [2.0, 1.0, 3.0]), None);
    }
}
