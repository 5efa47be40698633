//! The C functions: they translate arguments and results, and catch panics. The engine decides the effect of a call.
// Functions with C's calling convention and C's names.
#![allow(unsafe_code, non_snake_case)]

mod client;
mod copy_params;
mod cupti;
mod device;
mod driver;
mod driver_context;
mod driver_error;
mod driver_graph;
mod driver_memory;
mod driver_pointer;
mod driver_symbol;
mod error;
mod event;
mod graph;
mod graph_edges;
mod graph_node;
mod guard;
mod in_call;
mod library;
mod linker;
mod managed;
mod memory;
mod names;
mod node_params;
mod pointer;
mod pool;
mod proc_address;
mod properties;
mod records;
mod registered;
mod release;
mod stream;
mod transfer;
mod user_object;

pub(crate) use client::forget_client as forget_cupti_client;
pub(crate) use cupti::symbol as cupti_symbol;
pub use in_call::is_in_call;

use crate::engine::Machine;
use crate::preset::CudaVersion;
use guard::{Entry, find};
use std::ffi::c_void;

/// The functions of the runtime and of the driver, apart from those that look them up.
const FILES: &[&[Entry]] = &[
    error::ENTRIES,
    names::ENTRIES,
    device::ENTRIES,
    memory::ENTRIES,
    release::ENTRIES,
    transfer::ENTRIES,
    managed::ENTRIES,
    stream::ENTRIES,
    event::ENTRIES,
    graph::ENTRIES,
    graph_edges::ENTRIES,
    graph_node::ENTRIES,
    user_object::ENTRIES,
    pool::ENTRIES,
    properties::ENTRIES,
    registered::ENTRIES,
    driver::ENTRIES,
    driver_error::ENTRIES,
    driver_context::ENTRIES,
    driver_memory::ENTRIES,
    driver_pointer::ENTRIES,
    library::ENTRIES,
    linker::ENTRIES,
    driver_graph::ENTRIES,
];

/// The names of all calls that can fail, of every version.
pub(crate) fn calls() -> impl Iterator<Item = &'static str> {
    let others = [proc_address::ENTRIES, cupti::ENTRIES];
    let files = FILES.iter().chain(&others);
    let entries: Vec<&'static Entry> = files.copied().flatten().collect();
    entries.into_iter().filter_map(|entry| entry.call)
}

/// A symbol of the simulated driver library; null if that version does not have it.
pub(crate) fn driver_symbol(slot: usize, machine: &Machine, name: &str) -> *const c_void {
    find(&[proc_address::ENTRIES], slot, name)
        .unwrap_or_else(|| driver_symbol::driver_symbol(slot, machine, name))
}

/// Whether a function has an argument for the data of edges from CUDA 13 on, and under the name `_v2` before. The name is without the prefix of
/// its library.
fn has_edges(name: &str) -> bool {
    matches!(
        name,
        "GraphAddNode"
            | "GraphGetEdges"
            | "GraphNodeGetDependencies"
            | "GraphNodeGetDependentNodes"
            | "GraphAddDependencies"
            | "GraphRemoveDependencies"
            | "StreamUpdateCaptureDependencies"
    )
}

/// The first version that has a function under both names, that of the runtime and that of the driver. The name is without the prefix of its library.
fn first_version(name: &str) -> CudaVersion {
    match name {
        "StreamGetDevice" => CudaVersion::V12_9,
        "MemPrefetchBatchAsync"
        | "MemDiscardBatchAsync"
        | "MemDiscardAndPrefetchBatchAsync"
        | "MemGetDefaultMemPool"
        | "MemGetMemPool"
        | "MemSetMemPool" => CudaVersion::V13_0,
        _ => CudaVersion::V11_8,
    }
}

/// A symbol of the simulated runtime library; null if that version does not have it.
pub(crate) fn symbol(slot: usize, cuda: CudaVersion, name: &str) -> *const c_void {
    use CudaVersion::{V12_2, V12_9, V13_0, V13_4};
    let from = |version: CudaVersion| cuda >= version;
    let plain = name.strip_suffix("_v2").unwrap_or(name);
    let has_edges = plain.strip_prefix("cuda").is_some_and(has_edges);
    let present = match name {
        "cudaMemPrefetchAsync_v2" | "cudaMemAdvise_v2" => from(V12_2) && !from(V13_0),
        "cudaMemcpyBatchAsync" | "cudaGetDriverEntryPointByVersion" => from(V12_9),
        // Before CUDA 12 it has other arguments; `_v2` is a name of CUDA 12 only.
        "cudaGraphInstantiate" => from(V12_2),
        "cudaGetDeviceProperties_v2" => from(V12_2) && !from(V13_0),
        "cudaStreamGetCaptureInfo_v2" => !from(V13_0),
        "cudaStreamGetCaptureInfo_v3" => from(V12_9) && !from(V13_0),
        name if has_edges && name.ends_with("_v2") => from(V12_9) && !from(V13_0),
        "cudaGraphConditionalHandleCreate" | "cudaStreamBeginCaptureToGraph" => from(V12_9),
        "cudaMemGetLocationInfo" => from(V13_4),
        // This crate's own names for signatures that a version changed.
        name => {
            !name.ends_with("_13") && from(first_version(name.strip_prefix("cuda").unwrap_or(name)))
        }
    };
    let changed = match name {
        "cudaMemPrefetchAsync" if from(V13_0) => "cudaMemPrefetchAsync_13",
        "cudaMemAdvise" if from(V13_0) => "cudaMemAdvise_13",
        "cudaMemcpyBatchAsync" if from(V13_0) => "cudaMemcpyBatchAsync_13",
        "cudaGetDriverEntryPoint" if from(V12_2) => "cudaGetDriverEntryPoint_12",
        "cudaGraphExecUpdate" if from(V12_2) => "cudaGraphExecUpdate_12",
        "cudaStreamGetCaptureInfo" if from(V13_0) => "cudaStreamGetCaptureInfo_13",
        name if has_edges && from(V13_0) => &format!("{name}_v2"),
        name => name,
    };
    if present && !name.ends_with("_12") {
        find(FILES, slot, changed).unwrap_or(std::ptr::null())
    } else {
        std::ptr::null()
    }
}
