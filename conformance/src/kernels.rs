//! The kernels, and their CPU references for the simulator.
#![allow(
    unsafe_code,
    reason = "guarantees that the references match their kernels"
)]

use cuda_um_sim::{LaunchContext, ReferenceError, register_kernel};
use cuda_um_sys::{RuntimeVersion, Table};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The kernels, as text that ends with NUL.
pub(crate) const PTX: &CStr = with_nul(concat!(include_str!("kernels.ptx"), "\0"));
/// The kernel that sets conditions.
const CONDITIONS: &CStr = with_nul(concat!(include_str!("conditions.ptx"), "\0"));

const ALWAYS: &[&CStr] = &[
    c"conf_add",
    c"conf_copy",
    c"conf_wait",
    c"conf_limited",
    c"conf_trap",
];

/// The images that the version of the runtime has, and their kernels.
pub(crate) fn images(table: &Table) -> Vec<(&'static CStr, &'static [&'static CStr])> {
    let mut images = vec![(PTX, ALWAYS)];
    if table.version() >= RuntimeVersion::new(12, 3) {
        images.push((CONDITIONS, &[c"conf_set_condition"]));
    }
    images
}

const fn with_nul(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the PTX holds a NUL"),
    }
}

/// Registers the CPU references for every simulator of this process.
pub(crate) fn register() {
    // SAFETY: each reference does the same as its kernel in the PTX on the memory of its parameters, and only this suite
    // uses the names.
    unsafe {
        register_kernel("conf_add", add);
        register_kernel("conf_copy", copy);
        register_kernel("conf_wait", wait);
        register_kernel("conf_limited", limited);
        register_kernel("conf_trap", trap);
        register_kernel("conf_set_condition", set_condition);
    }
}

fn add(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let (count, amount) = (launch.value::<u32>(1)?, launch.value::<u32>(2)?);
    // SAFETY: the cases launch it on live memory, which nothing else uses before they have waited.
    let data = unsafe { launch.system_slice_mut::<u32>(0, count as usize)? };
    data.iter_mut()
        .for_each(|value| *value = value.wrapping_add(amount));
    Ok(())
}

fn copy(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let count = launch.value::<u32>(2)? as usize;
    // SAFETY: as above.
    let data = unsafe { launch.system_slice::<u32>(0, count)? };
    launch.slice_mut::<u32>(1, count)?.copy_from_slice(data);
    Ok(())
}

fn set_condition(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let value = launch.slice::<u32>(0, 1)?[0];
    launch.set_condition(launch.value(1)?, value)
}

fn wait(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let patience = Duration::from_nanos(launch.value(1)?);
    let flag = launch.slice_mut::<u32>(0, 2)?;
    let started = Instant::now();
    // SAFETY: a live, aligned word; every side uses single atomic accesses.
    let word = unsafe { AtomicU32::from_ptr(&raw mut flag[0]) };
    while word.load(Ordering::Acquire) == 0 {
        if started.elapsed() > patience {
            flag[1] = 2;
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    flag[1] = 1;
    Ok(())
}

fn limited(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    launch.slice_mut::<u32>(0, 1)?[0] = 7;
    Ok(())
}

fn trap(_: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    Err(ReferenceError::Failed("trap".to_owned()))
}
