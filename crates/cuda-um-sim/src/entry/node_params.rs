//! The structs that describe a node of a graph. Those of the runtime and of the driver differ in how they name a kernel, and in copies.

use super::copy_params::{copy_3d, driver_copy_3d, write_3d, write_driver_3d};
use super::driver;
use super::guard::with_state;
use super::pointer::{Arguments, Array, HostFunction, Out, Packed, UserData};
use super::pool::{AccessDescription, PoolProps};
use super::registered;
use crate::engine::{Code, Core, NodeParams, Parameter};
use std::sync::Arc;

/// Whose structs they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Runtime,
    Driver,
}

/// The kinds of nodes that have structs, as `cudaGraphNodeType` numbers them.
pub(super) const KERNEL: u32 = 0;
pub(super) const COPY: u32 = 1;
pub(super) const SET: u32 = 2;
pub(super) const HOST: u32 = 3;
pub(super) const ALLOCATE: u32 = 10;
pub(super) const CONDITIONAL: u32 = 13;

/// `cudaKernelNodeParams`, with which that of the driver begins.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kernel {
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: Arguments,
    extra: Packed,
}

/// `CUDA_KERNEL_NODE_PARAMS`: the kernel is used if there is no function.
#[derive(Clone, Copy)]
#[repr(C)]
struct DriverKernel {
    launch: Kernel,
    kernel: usize,
    context: usize,
}

/// `cudaHostNodeParams`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Host {
    function: HostFunction,
    data: UserData,
}

/// `cudaMemAllocNodeParams`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Allocate {
    pool: PoolProps,
    access: Array<AccessDescription>,
    count: usize,
    bytes: usize,
    pointer: usize,
}

fn kernel(core: &Arc<Core>, params: Out<u8>, api: Api) -> Result<NodeParams, Code> {
    let given = params.cast::<Kernel>().get()?;
    let handle = match (api, given.function) {
        (Api::Runtime, address) => registered::function(core, address)?,
        (Api::Driver, 0) => params.cast::<DriverKernel>().get()?.kernel,
        (Api::Driver, function) => function,
    };
    let function = core.state.lock().modules.function(handle)?.clone();
    Ok(NodeParams::Kernel {
        function: handle,
        shape: driver::shape(given.grid, given.block, given.shared_bytes),
        parameters: driver::arguments(&function, &given.arguments, &given.extra)?,
    })
}

fn allocate(core: &Core, given: Allocate) -> Result<NodeParams, Code> {
    let state = core.state.lock();
    let (managed, device) = given.pool.place()?;
    let device = state.devices.ordinal(device);
    let peers = given.access.to_vec(given.count)?.into_iter();
    let peers = peers.map(|description| state.devices.ordinal(description.device()?));
    Ok(NodeParams::Allocate {
        managed,
        device: device.map_err(|_| Code::INVALID_VALUE)?,
        bytes: given.bytes,
        peers: peers.collect::<Result<_, _>>()?,
        base: 0,
    })
}

/// Reads the struct of a kind of node.
pub(super) fn read(
    core: &Arc<Core>,
    kind: u32,
    params: Out<u8>,
    api: Api,
) -> Result<NodeParams, Code> {
    match (kind, api) {
        (KERNEL, _) => kernel(core, params, api),
        (COPY, Api::Runtime) => copy_3d(params).map(NodeParams::Copy),
        (COPY, Api::Driver) => driver_copy_3d(params).map(NodeParams::Copy),
        (SET, _) => params.cast().get().map(NodeParams::Set),
        (HOST, _) => {
            let Host { function, data } = params.cast().get()?;
            function.with(data).map(NodeParams::Host)
        }
        (ALLOCATE, _) => allocate(core, params.cast().get()?),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

/// Writes the address of the memory of a node into its struct.
pub(super) fn write_pointer(params: Out<u8>, pointer: usize) -> Result<(), Code> {
    let given = params.cast::<Allocate>().get()?;
    params.cast().put(Allocate { pointer, ..given })
}

/// Bytes in words, which are aligned.
fn words(bytes: &[u8]) -> Vec<usize> {
    let words = bytes.chunks(size_of::<usize>()).map(|chunk| {
        let mut word = [0; size_of::<usize>()];
        word[..chunk.len()].copy_from_slice(chunk);
        usize::from_ne_bytes(word)
    });
    words.collect()
}

/// Arguments of a launch as C passes them: pointers, and what they point to behind them.
fn array(parameters: &[Parameter]) -> Vec<usize> {
    let mut all = vec![0; parameters.len()];
    let mut places = Vec::new();
    for parameter in parameters {
        places.push(all.len());
        all.extend(words(&parameter.bytes));
    }
    let base = all.as_ptr() as usize;
    for (at, place) in places.into_iter().enumerate() {
        all[at] = base + place * size_of::<usize>();
    }
    all
}

/// Writes the struct of a node of a kind.
pub(super) fn write(
    core: &Arc<Core>,
    node: usize,
    kind: u32,
    params: Out<u8>,
    api: Api,
) -> Result<(), Code> {
    let given = with_state(core, |state, _| match state.graphs.kind_of(node)? == kind {
        true => state.params_of(node),
        false => Err(Code::INVALID_VALUE),
    })?;
    match given {
        NodeParams::Kernel {
            function,
            shape,
            parameters,
        } => {
            let address = core.state.lock().graphs.keep(node, array(&parameters));
            let function = match api {
                Api::Runtime => core.state.lock().registered_address(function)?,
                Api::Driver => function,
            };
            let launch = Kernel {
                function,
                grid: shape.grid,
                block: shape.block,
                shared_bytes: shape.shared_bytes,
                arguments: Arguments::at(address),
                extra: Packed::NONE,
            };
            match api {
                Api::Runtime => params.cast().put(launch),
                Api::Driver => params.cast().put(DriverKernel {
                    launch,
                    kernel: function,
                    context: 0,
                }),
            }
        }
        NodeParams::Copy(copy) => match api {
            Api::Runtime => write_3d(params, copy),
            Api::Driver => write_driver_3d(params, copy),
        },
        NodeParams::Set(set) => params.cast().put(set),
        NodeParams::Host(work) => params.cast().put(work.given),
        NodeParams::Allocate {
            managed,
            device,
            bytes,
            peers,
            base,
        } => {
            let descriptions = peers
                .iter()
                .flat_map(|peer| AccessDescription::bytes(*peer));
            let descriptions = words(&descriptions.collect::<Vec<_>>());
            let access = core.state.lock().graphs.keep(node, descriptions);
            params.cast().put(Allocate {
                pool: PoolProps::of(managed, device),
                access: Array::at(access),
                count: peers.len(),
                bytes,
                pointer: base,
            })
        }
        _ => Err(Code::NOT_SUPPORTED),
    }
}
