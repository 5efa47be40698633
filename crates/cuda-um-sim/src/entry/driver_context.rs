//! Functions of the driver for initialisation, devices and contexts.
//!
//! Each device has one context, its primary one, which is never destroyed. A thread without a current context uses that of device 0.

use super::guard::{entry_points, with_any_stream};
use super::pointer::Out;
use crate::engine::{Code, Core, ThreadState};

/// The handle of the primary context of device 0. No other handle is so large.
const FIRST: usize = 1 << 62;
const STEP: usize = 16;

/// The handle of the primary context of a device.
fn context_of(device: usize) -> usize {
    FIRST + device * STEP
}

/// The device of a context.
pub(super) fn device_of(context: usize, devices: usize) -> Result<usize, Code> {
    let found = (0..devices).find(|device| context_of(*device) == context);
    found.ok_or(Code::DEVICE_UNINITIALIZED)
}

fn current(core: &Core) -> Option<usize> {
    ThreadState::with(core.id, |thread| {
        thread.has_context.then(|| context_of(thread.device))
    })
}

entry_points! { Inquiry;
    fn cuInit(core, flags: u32) {
        let _ = core;
        if flags == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuDriverGetVersion(core, version: Out<i32>) { version.put(core.machine.cuda.number()) }

    fn cuDeviceTotalMem_v2(core, bytes: Out<usize>, device: i32) {
        let state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        bytes.put(state.devices[device].total_bytes as usize)
    }

    fn cuDeviceGetUuid(core, uuid: Out<[u8; 16]>, device: i32) {
        let device = core.state.lock().devices.ordinal(device)?;
        let mut bytes = *b"cuda-um-sim-gpu\0";
        bytes[15] = device as u8;
        uuid.put(bytes)
    }

    fn cuDeviceGetUuid_v2(core, uuid: Out<[u8; 16]>, device: i32) { bodies::cuDeviceGetUuid(core, uuid, device) }

    fn cuDevicePrimaryCtxRetain(core, context: Out<usize>, device: i32) {
        let mut state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        context.put(context_of(device))?;
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

    fn cuCtxGetCurrent(core, context: Out<usize>) { context.put(current(core).unwrap_or(0)) }

    fn cuCtxSetCurrent(core, context: usize) {
        let devices = core.state.lock().devices.len();
        let device = if context == 0 { None } else { Some(device_of(context, devices)?) };
        ThreadState::with(core.id, |thread| {
            thread.device = device.unwrap_or(0);
            thread.has_context = device.is_some();
        });
        Ok(())
    }

    fn cuCtxGetDevice(core, device: Out<i32>) {
        current(core).ok_or(Code::DEVICE_UNINITIALIZED)?;
        device.put(ThreadState::with(core.id, |thread| thread.device) as i32)
    }

    fn cuCtxGetApiVersion(core, context: usize, version: Out<u32>) {
        let devices = core.state.lock().devices.len();
        if context != 0 {
            device_of(context, devices)?;
        }
        version.put(core.machine.cuda.number() as u32)
    }

    // How the host waits, and how caches are divided, has no effect here.
    fn cuCtxSetFlags(core, flags: u32) {
        let _ = (core, flags);
        Ok(())
    }

    fn cuCtxSetCacheConfig(core, config: u32) {
        let _ = core;
        if config < 4 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuCtxGetCacheConfig(core, config: Out<u32>) {
        let _ = core;
        config.put(0)
    }

    fn cuStreamGetCtx(core, stream: usize, context: Out<usize>) {
        with_any_stream(core, stream, |_, stream| context.put(context_of(stream.device)))
    }

    fn cuProfilerStart(core) {
        let _ = core;
        Ok(())
    }

    fn cuProfilerStop(core) {
        let _ = core;
        Ok(())
    }
}
