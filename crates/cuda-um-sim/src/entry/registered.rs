//! The runtime's part of programs that nvcc built: registration before `main`, `<<<...>>>`, and functions that name a kernel or a variable by
//! an address of the host.

use std::cell::RefCell;
use std::sync::Arc;

use super::driver::{self, LaunchAttribute};
use super::guard::{Outcome, entry_points, with_state};
use super::pointer::{Arguments, Array, Image, Out, Text};
use super::transfer::bodies as transfer;
use crate::engine::{Code, Core, LaunchShape};

/// `dim3`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

/// `cudaLaunchConfig_t`, until its attributes.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: usize,
    attributes: Array<LaunchAttribute>,
    attribute_count: u32,
}

/// Grid, block, dynamic shared memory and stream of a launch by `<<<...>>>`, between the two calls of which it consists.
type Configuration = (Dim3, Dim3, usize, usize);

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// The function of the driver for a kernel that the program names by an address.
pub(super) fn function(core: &Arc<Core>, address: usize) -> Result<usize, Code> {
    with_state(core, |state, device| {
        state.registered_kernel(device, address)
    })
}

/// The address and the size of a variable that the program names by an address.
fn variable(core: &Arc<Core>, address: usize) -> Result<(usize, usize), Code> {
    with_state(core, |state, device| {
        state.registered_variable(device, address)
    })
}

fn launch(
    core: &Arc<Core>,
    kernel: usize,
    shape: LaunchShape,
    stream: usize,
    parameters: &Arguments,
) -> Outcome {
    let function = function(core, kernel)?;
    let launched = driver::launch(core, function, shape, stream, |function| {
        parameters.copy(&function.parameter_sizes(), &[])
    });
    // The runtime has its own code for a shape that the device cannot have.
    launched.map_err(|code| match code {
        Code::INVALID_VALUE => Code::INVALID_CONFIGURATION,
        code => code,
    })
}

fn shape(grid: Dim3, block: Dim3, shared_bytes: usize) -> Result<LaunchShape, Code> {
    let dim = |Dim3 { x, y, z }| [x, y, z];
    let shared_bytes = u32::try_from(shared_bytes).map_err(|_| Code::INVALID_VALUE)?;
    Ok(driver::shape(dim(grid), dim(block), shared_bytes))
}

/// The part of a variable of `bytes` bytes at `offset`.
fn part(core: &Arc<Core>, symbol: usize, bytes: usize, offset: usize) -> Result<usize, Code> {
    let (address, size) = variable(core, symbol)?;
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(address + offset),
        _ => Err(Code::INVALID_VALUE),
    }
}

entry_points! { Runtime;
    fn cudaUmSimRegisterBinary(core, handle: Out<usize>, image: Image) as "__cudaRegisterFatBinary" { handle.put(core.state.lock().registered.add(image.get()?)) }

    fn __cudaRegisterFatBinaryEnd(_core, _binary: usize) { Ok(()) }

    fn __cudaUnregisterFatBinary(core, binary: usize) {
        core.state.lock().registered.remove(binary);
        Ok(())
    }

    fn __cudaInitModule(_core, _binary: usize) { Ok(()) }

    fn __cudaRegisterFunction(core, binary: usize, address: usize, _device_address: usize, name: Text) {
        let name = name.get()?.to_string_lossy().into_owned();
        core.state.lock().registered.name(binary, address, name);
        Ok(())
    }

    fn __cudaRegisterVar(core, binary: usize, address: usize, device_address: usize, name: Text) {
        bodies::__cudaRegisterFunction(core, binary, address, device_address, name)
    }

    // The handle of a kernel is its address.
    fn __cudaGetKernel(_core, kernel: Out<usize>, address: usize) { kernel.put(address) }

    fn __cudaPushCallConfiguration(_core, grid: Dim3, block: Dim3, shared_bytes: usize, stream: usize) {
        CONFIGURATIONS.with_borrow_mut(|configurations| configurations.push((grid, block, shared_bytes, stream)));
        Ok(())
    }

    fn __cudaPopCallConfiguration(_core, grid: Out<Dim3>, block: Out<Dim3>, shared_bytes: Out<usize>, stream: Out<usize>) {
        let last = CONFIGURATIONS.with_borrow_mut(Vec::pop);
        let last = last.ok_or(Code::INVALID_CONFIGURATION)?;
        grid.put(last.0)?;
        block.put(last.1)?;
        shared_bytes.put(last.2)?;
        stream.put(last.3)
    }

    fn cudaLaunchKernel(core, kernel: usize, grid: Dim3, block: Dim3, parameters: Arguments, shared_bytes: usize, stream: usize) {
        launch(core, kernel, shape(grid, block, shared_bytes)?, stream, &parameters)
    }

    fn __cudaLaunchKernel(core, kernel: usize, grid: Dim3, block: Dim3, parameters: Arguments, shared_bytes: usize, stream: usize) {
        bodies::cudaLaunchKernel(core, kernel, grid, block, parameters, shared_bytes, stream)
    }

    fn cudaLaunchCooperativeKernel(core, kernel: usize, grid: Dim3, block: Dim3, parameters: Arguments, shared_bytes: usize, stream: usize) {
        let shape = LaunchShape { cooperative: true, ..shape(grid, block, shared_bytes)? };
        launch(core, kernel, shape, stream, &parameters)
    }

    fn cudaLaunchKernelExC(core, config: Out<LaunchConfig>, kernel: usize, parameters: Arguments) {
        let config = config.get()?;
        let shape = shape(config.grid, config.block, config.shared_bytes)?;
        let shape = driver::with_attributes(shape, config.attributes, config.attribute_count)?;
        launch(core, kernel, shape, config.stream, &parameters)
    }

    fn cudaFuncGetAttributes(core, attributes: Out<u64>, kernel: usize) {
        let function = function(core, kernel)?;
        let state = core.state.lock();
        let function = state.modules.function(function)?;
        let program = &function.program;
        for (at, bytes) in [program.shared_bytes(), 0, program.local_bytes()].into_iter().enumerate() {
            attributes.put_at(at, bytes as u64)?;
        }
        let (major, minor) = core.machine.profile.compute_capability;
        let numbers = attributes.cast::<u32>();
        let threads = program.max_threads().unwrap_or(1024) as u32;
        let dynamic = *function.dynamic_shared.lock();
        for (at, number) in [threads, 32, function.ptx_target(), major * 10 + minor, 0, dynamic, 0].into_iter().enumerate() {
            numbers.put_at(6 + at, number)?;
        }
        Ok(())
    }

    fn cudaFuncSetAttribute(core, kernel: usize, attribute: i32, value: i32) {
        let function = function(core, kernel)?;
        driver::bodies::cuFuncSetAttribute(core, function, attribute, value)
    }

    fn cudaFuncSetCacheConfig(core, kernel: usize, config: u32) {
        let function = function(core, kernel)?;
        driver::bodies::cuFuncSetCacheConfig(core, function, config)
    }

    fn cudaGetFuncBySymbol(core, found: Out<usize>, kernel: usize) { found.put(function(core, kernel)?) }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(core, blocks: Out<i32>, kernel: usize, threads: i32, dynamic_shared: usize) {
        let function = function(core, kernel)?;
        driver::bodies::cuOccupancyMaxActiveBlocksPerMultiprocessor(core, blocks, function, threads, dynamic_shared)
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        core, blocks: Out<i32>, kernel: usize, threads: i32, dynamic_shared: usize, flags: u32,
    ) {
        let function = function(core, kernel)?;
        driver::bodies::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(core, blocks, function, threads, dynamic_shared, flags)
    }

    fn cudaGetSymbolAddress(core, address: Out<usize>, symbol: usize) { address.put(variable(core, symbol)?.0) }

    fn cudaGetSymbolSize(core, bytes: Out<usize>, symbol: usize) { bytes.put(variable(core, symbol)?.1) }

    fn cudaMemcpyToSymbol(core, symbol: usize, from: usize, bytes: usize, offset: usize, direction: u32) {
        transfer::cudaMemcpy(core, part(core, symbol, bytes, offset)?, from, bytes, direction)
    }

    fn cudaMemcpyFromSymbol(core, to: usize, symbol: usize, bytes: usize, offset: usize, direction: u32) {
        transfer::cudaMemcpy(core, to, part(core, symbol, bytes, offset)?, bytes, direction)
    }

    fn cudaMemcpyToSymbolAsync(core, symbol: usize, from: usize, bytes: usize, offset: usize, direction: u32, stream: usize) {
        transfer::cudaMemcpyAsync(core, part(core, symbol, bytes, offset)?, from, bytes, direction, stream)
    }

    fn cudaMemcpyFromSymbolAsync(core, to: usize, symbol: usize, bytes: usize, offset: usize, direction: u32, stream: usize) {
        transfer::cudaMemcpyAsync(core, to, part(core, symbol, bytes, offset)?, bytes, direction, stream)
    }
}
