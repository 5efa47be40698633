//! Functions of the driver: modules, launches, memset of wider elements.

use super::guard::{entry_points, with_state, with_work_stream};
use super::pointer::{Arguments, Array, Image, JitOptions, Out, Packed, Text};
use crate::engine::{Code, Core, Function, LaunchShape, ModuleImage, Parameter, take_detail};
use cuda_um_sys::DeclaredArgument;
use std::sync::Arc;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: i32 = 8;

fn load(core: &Arc<Core>, module: Out<usize>, image: &[u8]) -> Result<(), Code> {
    core.call_unsafe()?;
    // Decoded while no lock is held.
    let image = ModuleImage::load(&core.machine, image)?;
    with_state(core, |state, device| {
        module.put(state.add_module(device, image)?)
    })
}

pub(super) fn launch(
    core: &Arc<Core>,
    function: usize,
    shape: LaunchShape,
    stream: usize,
    parameters: impl FnOnce(&Function) -> Result<Vec<Parameter>, Code>,
) -> Result<(), Code> {
    let (stream, function) = with_work_stream(core, stream, |state, stream| {
        Ok((stream.clone(), state.modules.function(function)?.clone()))
    })?;
    let parameters = parameters(&function)?;
    let mut state = core.state.lock();
    state.launch(core, &stream, &function, shape, parameters)
}

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE` and `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;

/// `CUlaunchAttribute`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct LaunchAttribute {
    number: u32,
    value: [u64; 8],
}

/// `CUlaunchConfig`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: usize,
    attributes: Array<LaunchAttribute>,
    count: u32,
}

/// The arguments of a launch, which are given in one of two ways.
pub(super) fn arguments(
    function: &Function,
    parameters: &Arguments,
    extra: &Packed,
) -> Result<Vec<Parameter>, Code> {
    if extra.is_null() {
        return parameters.copy(&function.parameter_sizes(), &[]);
    }
    let places = function.program.parameters().iter();
    let places = places.map(|place| (place.offset, place.bytes));
    extra.copy(&places.collect::<Vec<_>>())
}

pub(super) fn shape(grid: [u32; 3], block: [u32; 3], shared_bytes: u32) -> LaunchShape {
    LaunchShape {
        grid,
        block,
        shared_bytes,
        cooperative: false,
    }
}

/// The shape of a launch with attributes, of which most are hints.
pub(super) fn with_attributes(
    shape: LaunchShape,
    attributes: Array<LaunchAttribute>,
    count: u32,
) -> Result<LaunchShape, Code> {
    let attributes = attributes.to_vec(count as usize)?;
    let has = |number| {
        let mut attributes = attributes.iter();
        attributes.any(|attribute| attribute.number == number && attribute.value[0] as u32 != 0)
    };
    let cooperative = has(COOPERATIVE);
    match has(CLUSTER) {
        // The simulated device has no clusters.
        true => Err(Code::NOT_SUPPORTED),
        false => Ok(LaunchShape {
            cooperative,
            ..shape
        }),
    }
}

entry_points! { Driver;
    fn cuDeviceGet(core, device: Out<i32>, ordinal: i32) {
        core.state.lock().devices.ordinal(ordinal)?;
        device.put(ordinal)
    }

    fn cuDeviceGetName(core, name: Out<u8>, len: i32, device: i32) {
        core.state.lock().devices.ordinal(device)?;
        let room = usize::try_from(len).ok().and_then(|len| len.checked_sub(1)).ok_or(Code::INVALID_VALUE)?;
        let text = core.machine.profile.name.bytes().take(room).chain([0]);
        text.enumerate().try_for_each(|(index, byte)| name.put_at(index, byte))
    }

    fn cuModuleLoadData(core, module: Out<usize>, image: Image) { load(core, module, &image.get()?) }

    fn cuModuleLoadDataEx(core, module: Out<usize>, image: Image, count: u32, options: JitOptions, values: Out<usize>) {
        let loaded = image.get().and_then(|image| load(core, module, &image));
        let log = take_detail().unwrap_or_default();
        options.log(values, count as usize, &log)?;
        loaded
    }

    fn cuModuleLoad(core, module: Out<usize>, path: Text) {
        let image = std::fs::read(path.path()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        load(core, module, &image)
    }

    fn cuModuleUnload(core, module: usize) = cuLibraryUnload {
        core.call_unsafe()?;
        core.state.lock().unload_module(module)
    }

    fn cuModuleGetFunction(core, function: Out<usize>, module: usize, name: Text) = cuLibraryGetKernel {
        let name = name.get()?.to_str().map_err(|_| Code::SYMBOL_NOT_FOUND)?;
        function.put(core.state.lock().modules.look_up(module, name)?)
    }

    fn cuFuncGetAttribute(core, value: Out<i32>, attribute: i32, function: usize) {
        let state = core.state.lock();
        let function = state.modules.function(function)?;
        let (major, minor) = core.machine.profile.compute_capability;
        value.put(match attribute {
            0 => function.program.max_threads().unwrap_or(1024) as i32,
            1 => function.program.shared_bytes() as i32,
            2 => 0,
            3 => function.program.local_bytes() as i32,
            4 => function.program.registers() as i32,
            5 => function.ptx_target() as i32,
            6 => (major * 10 + minor) as i32,
            7 => 0,
            MAX_DYNAMIC_SHARED => *function.dynamic_shared.lock() as i32,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    fn cuFuncGetParamInfo(core, function: usize, index: usize, offset: Out<usize>, size: Out<usize>) = cuKernelGetParamInfo {
        let state = core.state.lock();
        let parameters = state.modules.function(function)?.program.parameters();
        let parameter = parameters.get(index).ok_or(Code::INVALID_VALUE)?;
        offset.put(parameter.offset)?;
        if size.is_null() { Ok(()) } else { size.put(parameter.bytes) }
    }

    fn cuFuncSetAttribute(core, function: usize, attribute: i32, value: i32) {
        let state = core.state.lock();
        let function = state.modules.function(function)?;
        // The preferred carve-out of shared memory is a hint, and -1 is its default.
        if attribute == 9 && (-1..=100).contains(&value) {
            return Ok(());
        }
        let value = u32::try_from(value).map_err(|_| Code::INVALID_VALUE)?;
        let most = core.machine.profile.shared_bytes_per_block_optin;
        match attribute {
            MAX_DYNAMIC_SHARED if (function.program.shared_bytes() as u32).saturating_add(value) <= most => {
                *function.dynamic_shared.lock() = value;
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(core, blocks: Out<i32>, function: usize, threads: i32, dynamic_shared: usize) {
        let state = core.state.lock();
        let function = state.modules.function(function)?;
        if !(1..=1024).contains(&threads) {
            return Err(Code::INVALID_VALUE);
        }
        let profile = &core.machine.profile;
        let warps = (threads as u32).div_ceil(32) * 32;
        let by_threads = (profile.threads_per_multiprocessor / warps).min(32);
        let shared = function.program.shared_bytes().saturating_add(dynamic_shared);
        let per_multiprocessor = profile.shared_bytes_per_block_optin as usize + 1024;
        let by_shared = if shared == 0 { u32::MAX } else { (per_multiprocessor / shared.saturating_add(1024)) as u32 };
        blocks.put(by_threads.min(by_shared) as i32)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        core, blocks: Out<i32>, function: usize, threads: i32, dynamic_shared: usize, flags: u32,
    ) {
        // Flag 1 concerns caches.
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        bodies::cuOccupancyMaxActiveBlocksPerMultiprocessor(core, blocks, function, threads, dynamic_shared)
    }

    // The largest blocks, which fill the device.
    fn cuOccupancyMaxPotentialBlockSize(
        core, grid: Out<i32>, block: Out<i32>, function: usize, shared_of: usize, dynamic_shared: usize, limit: i32,
    ) {
        // A function of the program for the shared memory of each size of block.
        if shared_of != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let most = core.state.lock().modules.function(function)?.program.max_threads().unwrap_or(1024) as i32;
        let threads = if limit > 0 { most.min(limit) } else { most };
        bodies::cuOccupancyMaxActiveBlocksPerMultiprocessor(core, grid, function, threads, dynamic_shared)?;
        grid.put(grid.get()? * core.machine.profile.multiprocessors as i32)?;
        block.put(threads)
    }

    fn cuLaunchKernel(
        core, function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: usize, parameters: Arguments, extra: Packed,
    ) {
        let shape = shape([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes);
        launch(core, function, shape, stream, |function| arguments(function, &parameters, &extra))
    }

    fn cuLaunchKernelEx(core, config: Out<LaunchConfig>, function: usize, parameters: Arguments, extra: Packed) {
        let LaunchConfig { grid, block, shared_bytes, stream, attributes, count } = config.get()?;
        let shape = with_attributes(shape(grid, block, shared_bytes), attributes, count)?;
        launch(core, function, shape, stream, |function| match extra.is_null() {
            true => parameters.copy(&function.parameter_sizes(), &[]),
            false => Err(Code::INVALID_VALUE),
        })
    }

    fn cuModuleGetGlobal_v2(core, address: Out<usize>, bytes: Out<usize>, module: usize, name: Text) = cuLibraryGetGlobal = cuLibraryGetManaged {
        let name = name.get()?.to_str().map_err(|_| Code::SYMBOL_NOT_FOUND)?;
        let (found, size) = core.state.lock().modules.variable(module, name)?;
        if !address.is_null() {
            address.put(found)?;
        }
        if bytes.is_null() { Ok(()) } else { bytes.put(size) }
    }

    // `cuLaunchKernel` for a caller that declares the arguments: `Table::declared_launch` of cuda-um-sys.
    fn cuUmSimLaunchKernel(
        core, function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: usize, parameters: Arguments, declared: Array<DeclaredArgument>,
    ) as "cuLaunchKernel" {
        let shape = shape([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes);
        launch(core, function, shape, stream, |function| {
            let sizes = function.parameter_sizes();
            parameters.copy(&sizes, &declared.to_vec(sizes.len())?)
        })
    }

    fn cuLaunchCooperativeKernel(
        core, function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: usize, parameters: Arguments,
    ) {
        let shape = shape([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes);
        let shape = LaunchShape { cooperative: true, ..shape };
        launch(core, function, shape, stream, |function| parameters.copy(&function.parameter_sizes(), &[]))
    }

    fn cuFuncSetCacheConfig(core, function: usize, config: u32) {
        core.state.lock().modules.function(function)?;
        // The preferred division of the cache is a hint.
        if config < 4 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuMemsetD8Async(core, to: u64, value: u8, count: usize, stream: usize) {
        with_work_stream(core, stream, |state, stream| state.set(core, stream, to as usize, value.into(), 1, count)).map(drop)
    }

    fn cuMemsetD16Async(core, to: u64, value: u16, count: usize, stream: usize) {
        with_work_stream(core, stream, |state, stream| state.set(core, stream, to as usize, value.into(), 2, count)).map(drop)
    }

    fn cuMemsetD32Async(core, to: u64, value: u32, count: usize, stream: usize) {
        with_work_stream(core, stream, |state, stream| state.set(core, stream, to as usize, value, 4, count)).map(drop)
    }

    fn cuStreamWriteValue32(core, stream: usize, to: u64, value: u32, flags: u32) {
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        with_work_stream(core, stream, |state, stream| state.write_value(core, stream, to as usize, value))
    }
}
