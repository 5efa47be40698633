//! The functions of the simulated driver, by name.

use std::ffi::c_void;

use super::guard::{Lookup, of_all_slots};
use super::{driver, driver_context, driver_error, driver_memory, driver_twin};
use crate::engine::Machine;
use crate::preset::CudaVersion;
use crate::slot::SLOTS;

fn driver_function<const SLOT: usize>(name: &str) -> Option<*const c_void> {
    driver::lookup::<SLOT>(name)
        .or_else(|| driver_error::lookup::<SLOT>(name))
        .or_else(|| driver_context::lookup::<SLOT>(name))
        .or_else(|| driver_memory::lookup::<SLOT>(name))
        .or_else(|| driver_twin::lookup::<SLOT>(name))
}

static DRIVER: [Lookup; SLOTS] = of_all_slots!(driver_function);

/// A function of the simulated driver; null if that version does not have it.
pub(super) fn driver_symbol(slot: usize, machine: &Machine, name: &str) -> *const c_void {
    let is_there = match name {
        // From CUDA 12.4 on.
        "cuFuncGetParamInfo" => machine.cuda >= CudaVersion::V12_9,
        "cuStreamWriteValue32" => machine.stream_writes && machine.cuda >= CudaVersion::V12_2,
        "cuMemPrefetchAsync_v2" | "cuMemAdvise_v2" => machine.cuda >= CudaVersion::V12_2,
        "cuEventElapsedTime_v2" => machine.cuda >= CudaVersion::V12_9,
        _ => true,
    };
    if !is_there {
        return std::ptr::null();
    }
    DRIVER[slot](name).unwrap_or(std::ptr::null())
}

/// The function that the headers of this version mean by a name; null if there is none.
pub(super) fn latest_symbol(slot: usize, machine: &Machine, name: &str) -> *const c_void {
    // The headers before CUDA 13 mean the first version of these, and the latest version of all others.
    let first = ["cuMemPrefetchAsync", "cuMemAdvise"].contains(&name);
    let latest = match first && machine.cuda < CudaVersion::V13_0 {
        true => std::ptr::null(),
        false => driver_symbol(slot, machine, &format!("{name}_v2")),
    };
    match latest.is_null() {
        true => driver_symbol(slot, machine, name),
        false => latest,
    }
}
