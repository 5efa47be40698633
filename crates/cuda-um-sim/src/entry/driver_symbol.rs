//! The functions of the simulated driver, by name.

use std::ffi::c_void;

use super::guard::{Entry, find};
use super::{
    driver, driver_context, driver_error, driver_graph, driver_memory, driver_pointer, driver_twin,
    has_edges, library, linker,
};
use crate::engine::Machine;
use crate::preset::CudaVersion;

/// The functions of the driver library, apart from the one that looks them up.
pub(super) const DRIVER: &[&[Entry]] = &[
    driver::ENTRIES,
    driver_error::ENTRIES,
    driver_context::ENTRIES,
    driver_memory::ENTRIES,
    driver_pointer::ENTRIES,
    library::ENTRIES,
    linker::ENTRIES,
    driver_graph::ENTRIES,
    driver_twin::ENTRIES,
];

/// A function of the simulated driver; null if that version does not have it.
pub(super) fn driver_symbol(slot: usize, machine: &Machine, name: &str) -> *const c_void {
    let is_there = match name {
        // From CUDA 12.4 on.
        "cuFuncGetParamInfo" => machine.cuda >= CudaVersion::V12_9,
        "cuStreamWriteValue32" => machine.stream_writes && machine.cuda >= CudaVersion::V12_2,
        "cuMemPrefetchAsync_v2" | "cuMemAdvise_v2" => machine.cuda >= CudaVersion::V12_2,
        "cuEventElapsedTime_v2"
        | "cuStreamGetDevice"
        | "cuStreamGetCaptureInfo_v3"
        | "cuCtxCreate_v4" => machine.cuda >= CudaVersion::V12_9,
        "cuMemPrefetchBatchAsync"
        | "cuMemDiscardBatchAsync"
        | "cuMemDiscardAndPrefetchBatchAsync"
        | "cuMemGetDefaultMemPool"
        | "cuMemGetMemPool"
        | "cuMemSetMemPool" => machine.cuda >= CudaVersion::V13_0,
        name if name.starts_with("cuLibrary") || name.starts_with("cuKernel") => {
            machine.cuda >= CudaVersion::V12_2
        }
        _ => true,
    };
    if !is_there {
        return std::ptr::null();
    }
    find(DRIVER, slot, name).unwrap_or(std::ptr::null())
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
