//! The functions of the simulated driver, by name.

use std::ffi::c_void;

use super::guard::{Lookup, of_all_slots};
use super::{driver, driver_error};
use crate::engine::Machine;
use crate::preset::CudaVersion;
use crate::slot::SLOTS;

fn driver_function<const SLOT: usize>(name: &str) -> Option<*const c_void> {
    driver::lookup::<SLOT>(name).or_else(|| driver_error::lookup::<SLOT>(name))
}

static DRIVER: [Lookup; SLOTS] = of_all_slots!(driver_function);

/// A function of the simulated driver of this machine, or null.
pub(super) fn driver_symbol(slot: usize, machine: &Machine, name: &str) -> *const c_void {
    let is_there = match name {
        // From CUDA 12.4 on.
        "cuFuncGetParamInfo" => machine.cuda >= CudaVersion::V12_9,
        "cuStreamWriteValue32" => machine.stream_writes && machine.cuda >= CudaVersion::V12_2,
        _ => true,
    };
    if !is_there {
        return std::ptr::null();
    }
    DRIVER[slot](name).unwrap_or(std::ptr::null())
}
