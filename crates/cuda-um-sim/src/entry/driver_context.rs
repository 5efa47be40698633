//! Functions of the driver for initialisation, devices and contexts.
//!
//! Each device has its primary context, which is never destroyed, and those that a program creates, which share everything with it. A thread
//! without a current context uses that of device 0.

use super::device::pci_bus_id;
use super::guard::{entry_points, with_any_stream};
use super::pointer::{Out, Text};
use crate::engine::{Code, Core, ThreadState, primary_context};

/// The flags of a context: how the host waits, and other hints.
const FLAGS: u32 = 0xff;
/// A flag of a context: set in every context (measured with CUDA 13.0).
const MAP_HOST: u32 = 8;

/// The identity of a device.
pub(super) fn uuid(device: usize) -> [u8; 16] {
    let mut bytes = *b"cuda-um-sim-gpu\0";
    bytes[15] = device as u8;
    bytes
}

/// The value of a limit: the stack of a thread, the buffer of `printf`, the heap of `malloc`, launches from the device, granularity of the
/// cache.
pub(super) fn limit_default(limit: u32) -> Result<usize, Code> {
    let defaults = [1 << 10, 1 << 20, 8 << 20, 2, 2048, 64, 0];
    defaults
        .get(limit as usize)
        .copied()
        .ok_or(Code::UNSUPPORTED_LIMIT)
}

/// The device of the thread's current context.
fn current_device(core: &Core) -> Result<usize, Code> {
    ThreadState::with(core.id, |thread| match thread.context {
        0 => Err(Code::DEVICE_UNINITIALIZED),
        _ => Ok(thread.device),
    })
}

/// Creates a context, and makes it current.
fn create(core: &Core, context: Out<usize>, flags: u32, device: i32) -> Result<(), Code> {
    let mut state = core.state.lock();
    let device = state.devices.ordinal(device)?;
    if context.is_null() || flags & !FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let created = state.contexts.create(device);
    ThreadState::with(core.id, |thread| {
        let below = thread.context;
        thread.stack.extend(Some(below).filter(|below| *below != 0));
        state.contexts.make_current(created, thread)
    })?;
    context.put(created)
}

/// Makes the context below the current one current.
fn pop(core: &Core) -> Result<usize, Code> {
    let state = core.state.lock();
    ThreadState::with(core.id, |thread| {
        let top = thread.context;
        if top == 0 {
            return Err(Code::DEVICE_UNINITIALIZED);
        }
        let below = thread.stack.pop().unwrap_or(0);
        state.contexts.make_current(below, thread)?;
        Ok(top)
    })
}

entry_points! { Inquiry;
    fn cuInit(_core, flags: u32) {
        if flags == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuDeviceTotalMem_v2(core, bytes: Out<usize>, device: i32) {
        let state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        bytes.put(state.devices[device].total_bytes as usize)
    }

    fn cuDeviceGetUuid(core, uuid: Out<[u8; 16]>, device: i32) = cuDeviceGetUuid_v2 { uuid.put(self::uuid(core.state.lock().devices.ordinal(device)?)) }

    fn cuDevicePrimaryCtxRetain(core, context: Out<usize>, device: i32) {
        let mut state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        context.put(primary_context(device))?;
        state.devices[device].retained += 1;
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(core, device: i32) {
        let mut state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        let retained = &mut state.devices[device].retained;
        *retained = retained.checked_sub(1).ok_or(Code::DEVICE_UNINITIALIZED)?;
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(core, device: i32, flags: Out<u32>, active: Out<i32>) {
        let state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        flags.put(0)?;
        active.put(i32::from(state.devices[device].retained > 0))
    }

    fn cuDevicePrimaryCtxSetFlags_v2(core, device: i32, flags: u32) {
        core.state.lock().devices.ordinal(device)?;
        if flags & !FLAGS == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuDevicePrimaryCtxReset_v2(core, device: i32) {
        let device = core.state.lock().devices.ordinal(device)?;
        core.reset_device(device)
    }

    fn cuCtxCreate_v2(core, context: Out<usize>, flags: u32, device: i32) { create(core, context, flags, device) }

    // The parameters concern partitions of the device, which are not simulated.
    fn cuCtxCreate_v3(core, context: Out<usize>, _params: usize, count: i32, flags: u32, device: i32) {
        if count == 0 { create(core, context, flags, device) } else { Err(Code::NOT_SUPPORTED) }
    }

    fn cuCtxCreate_v4(core, context: Out<usize>, params: Out<[usize; 3]>, flags: u32, device: i32) {
        let is_plain = params.is_null() || params.get()? == [0; 3];
        if is_plain { create(core, context, flags, device) } else { Err(Code::NOT_SUPPORTED) }
    }

    fn cuCtxDestroy_v2(core, context: usize) {
        core.state.lock().contexts.destroy(context)?;
        let is_current = ThreadState::with(core.id, |thread| thread.context == context);
        if is_current { pop(core).map(drop) } else { Ok(()) }
    }

    fn cuCtxPushCurrent_v2(core, context: usize) {
        let state = core.state.lock();
        ThreadState::with(core.id, |thread| {
            let below = thread.context;
            state.contexts.make_current(context, thread)?;
            thread.stack.extend(Some(below).filter(|below| *below != 0));
            Ok(())
        })
    }

    fn cuCtxPopCurrent_v2(core, context: Out<usize>) {
        let popped = pop(core)?;
        if context.is_null() { Ok(()) } else { context.put(popped) }
    }

    fn cuCtxGetCurrent(core, context: Out<usize>) { context.put(ThreadState::with(core.id, |thread| thread.context)) }

    fn cuCtxSetCurrent(core, context: usize) {
        let state = core.state.lock();
        ThreadState::with(core.id, |thread| state.contexts.make_current(context, thread))
    }

    fn cuCtxGetDevice(core, device: Out<i32>) { device.put(current_device(core)? as i32) }

    fn cuCtxGetApiVersion(core, context: usize, version: Out<u32>) {
        if context != 0 {
            core.state.lock().contexts.device(context)?;
        }
        version.put(core.machine.cuda.number() as u32)
    }

    fn cuCtxGetId(core, context: usize, id: Out<u64>) {
        let current = if context == 0 { ThreadState::with(core.id, |thread| thread.context) } else { context };
        core.state.lock().contexts.device(current)?;
        id.put(current as u64)
    }

    // How the host waits, and how caches are divided, has no effect here.
    fn cuCtxSetFlags(core, flags: u32) {
        current_device(core)?;
        if flags & !FLAGS == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuCtxGetFlags(core, flags: Out<u32>) {
        current_device(core)?;
        flags.put(MAP_HOST)
    }

    fn cuCtxGetLimit(core, value: Out<usize>, limit: u32) {
        current_device(core)?;
        value.put(limit_default(limit)?)
    }

    // No kernel of the simulator is near a limit.
    fn cuCtxSetLimit(core, limit: u32, _value: usize) {
        current_device(core)?;
        limit_default(limit).map(drop)
    }

    fn cuCtxResetPersistingL2Cache(core) { current_device(core).map(drop) }

    fn cuDeviceGetByPCIBusId(core, device: Out<i32>, id: Text) {
        let state = core.state.lock();
        let id = id.get()?.to_string_lossy().to_uppercase();
        let found = (0..state.devices.len()).find(|device| pci_bus_id(*device) == id || pci_bus_id(*device)[5..] == id);
        device.put(found.ok_or(Code::INVALID_DEVICE)? as i32)
    }

    fn cuDeviceComputeCapability(core, major: Out<i32>, minor: Out<i32>, device: i32) {
        core.state.lock().devices.ordinal(device)?;
        let (found_major, found_minor) = core.machine.profile.compute_capability;
        major.put(found_major as i32)?;
        minor.put(found_minor as i32)
    }

    fn cuCtxSetCacheConfig(_core, config: u32) {
        if config < 4 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuCtxGetCacheConfig(_core, config: Out<u32>) { config.put(0) }

    fn cuStreamGetCtx(core, stream: usize, context: Out<usize>) {
        with_any_stream(core, stream, |_, stream| context.put(primary_context(stream.device)))
    }

    fn cuProfilerStart(_core) = cuProfilerStop { Ok(()) }
    // Of NVML.
    fn nvmlInit_v2(_core) = nvmlShutdown { Ok(()) }
}
