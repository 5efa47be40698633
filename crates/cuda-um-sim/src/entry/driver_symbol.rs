//! The functions of the simulated driver and of NVML, by name.

use std::ffi::c_void;

use super::guard::find;
use super::{FILES, first_version, has_edges};
use crate::engine::Machine;
use crate::preset::CudaVersion;

/// A function of the simulated driver; null if that version does not have it.
pub(super) fn driver_symbol(slot: usize, machine: &Machine, name: &str) -> *const c_void {
    let is_there = match name {
        // From CUDA 12.4 on.
        "cuFuncGetParamInfo" => machine.cuda >= CudaVersion::V12_9,
        "cuStreamWriteValue32" => machine.stream_writes && machine.cuda >= CudaVersion::V12_2,
        "cuMemPrefetchAsync_v2" | "cuMemAdvise_v2" => machine.cuda >= CudaVersion::V12_2,
        "cuEventElapsedTime_v2" | "cuStreamGetCaptureInfo_v3" | "cuCtxCreate_v4" => {
            machine.cuda >= CudaVersion::V12_9
        }
        name if name.starts_with("cuLibrary") || name.starts_with("cuKernel") => {
            machine.cuda >= CudaVersion::V12_2
        }
        name => {
            let twin = name.strip_prefix("cu").unwrap_or(name);
            !name.starts_with("cuda") && machine.cuda >= first_version(twin)
        }
    };
    if !is_there {
        return std::ptr::null();
    }
    find(FILES, slot, name).unwrap_or(std::ptr::null())
}

/// The function that the headers of this version mean by a name; null if there is none.
pub(super) fn latest_symbol(slot: usize, machine: &Machine, name: &str) -> *const c_void {
    // The headers before CUDA 13 mean the first version.
    let first = matches!(name, "cuMemPrefetchAsync" | "cuMemAdvise")
        || name.strip_prefix("cu").is_some_and(has_edges);
    let is_13 = machine.cuda >= CudaVersion::V13_0;
    let latest = match name {
        "cuStreamGetCaptureInfo" if is_13 => {
            driver_symbol(slot, machine, "cuStreamGetCaptureInfo_v3")
        }
        "cuCtxCreate" if is_13 => driver_symbol(slot, machine, "cuCtxCreate_v4"),
        _ if first && !is_13 => std::ptr::null(),
        _ => driver_symbol(slot, machine, &format!("{name}_v2")),
    };
    match latest.is_null() {
        true => driver_symbol(slot, machine, name),
        false => latest,
    }
}
