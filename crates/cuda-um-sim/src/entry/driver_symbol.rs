//! The functions of the simulated driver, by name.

use std::ffi::c_void;

use super::guard::{Lookup, of_all_slots};
use super::{driver, driver_error};
use crate::preset::CudaVersion;
use crate::slot::SLOTS;

fn driver_function<const SLOT: usize>(name: &str) -> Option<*const c_void> {
    driver::lookup::<SLOT>(name).or_else(|| driver_error::lookup::<SLOT>(name))
}

static DRIVER: [Lookup; SLOTS] = of_all_slots!(driver_function);

/// A function of the simulated driver of this version, or null.
pub(super) fn driver_symbol(slot: usize, cuda: CudaVersion, name: &str) -> *const c_void {
    // From CUDA 12.4 on.
    if name == "cuFuncGetParamInfo" && cuda < CudaVersion::V12_9 {
        return std::ptr::null();
    }
    DRIVER[slot](name).unwrap_or(std::ptr::null())
}
