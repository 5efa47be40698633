//! Devices, peers, memory info, driver entry points.

use super::driver_context::limit_default;
use super::driver_symbol::latest_symbol;
use super::guard::{entry_points, with_state};
use super::pointer::{Out, Text};
use crate::engine::{Code, Core, ThreadState, primary_context};
use crate::preset::CudaVersion;
use cuda_um_cost::PeerLink;
use std::sync::Arc;

/// `cudaDriverEntryPointSuccess` and `cudaDriverEntryPointSymbolNotFound`.
const FOUND: u32 = 0;
const NOT_FOUND: u32 = 1;

/// The name of a device on the bus.
pub(super) fn pci_bus_id(device: usize) -> String {
    format!("0000:{:02X}:00.0", 1 + device)
}

fn entry_point(
    core: &Arc<Core>,
    name: &Text,
    function: Out<usize>,
    status: Option<Out<u32>>,
) -> Result<(), Code> {
    let address = name.get()?.to_str().map_or(0, |name| {
        latest_symbol(core.slot(), &core.machine, name) as usize
    });
    function.put(address)?;
    if let Some(status) = status.filter(|status| !status.is_null()) {
        status.put(if address == 0 { NOT_FOUND } else { FOUND })?;
    }
    Ok(())
}

entry_points! { Runtime;
    fn cudaGetDeviceCount(core, count: Out<i32>) = cuDeviceGetCount = nvmlDeviceGetCount_v2 { count.put(core.state.lock().devices.len() as i32) }

    fn cudaGetDevice(core, device: Out<i32>) { device.put(ThreadState::with(core.id, |thread| thread.device) as i32) }

    fn cudaSetDevice(core, device: i32) {
        let ordinal = core.state.lock().devices.ordinal(device)?;
        ThreadState::with(core.id, |thread| (thread.device, thread.context) = (ordinal, primary_context(ordinal)));
        Ok(())
    }

    fn cudaDeviceGetAttribute(core, value: Out<i32>, attribute: i32, device: i32) = cuDeviceGetAttribute {
        let ordinal = core.state.lock().devices.ordinal(device)?;
        value.put(core.machine.attribute(attribute, ordinal)?)
    }

    fn cudaDeviceGetPCIBusId(core, text: Out<u8>, len: i32, device: i32) = cuDeviceGetPCIBusId {
        let ordinal = core.state.lock().devices.ordinal(device)?;
        let id = pci_bus_id(ordinal) + "\0";
        if usize::try_from(len).map_or(true, |len| len < id.len()) {
            return Err(Code::INVALID_VALUE);
        }
        id.bytes().enumerate().try_for_each(|(index, byte)| text.put_at(index, byte))
    }

    fn cudaDeviceGetStreamPriorityRange(_core, least: Out<i32>, greatest: Out<i32>) = cuCtxGetStreamPriorityRange {
        // Either may be null: the caller wants the other.
        if !least.is_null() {
            least.put(0)?;
        }
        if greatest.is_null() { Ok(()) } else { greatest.put(-5) }
    }

    fn cudaDeviceSynchronize(core) = cuCtxSynchronize {
        let device = ThreadState::with(core.id, |thread| thread.device);
        core.state.lock().graphs.use_device(device)?;
        core.wait_device(Some(device))
    }

    fn cudaDeviceGetLimit(_core, value: Out<usize>, limit: u32) { value.put(limit_default(limit)?) }

    fn cudaDeviceSetLimit(_core, limit: u32, _value: usize) {
        limit_default(limit).map(drop)
    }

    // How the host waits, and how caches are divided, has no effect here.
    fn cudaSetDeviceFlags(_core, flags: u32) {
        if flags & !0xff == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    // `cudaDeviceMapHost` is always set.
    fn cudaGetDeviceFlags(_core, flags: Out<u32>) { flags.put(8) }

    fn cudaDeviceSetCacheConfig(_core, config: u32) {
        if config < 4 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cudaCtxResetPersistingL2Cache(_core) { Ok(()) }

    fn cudaProfilerStart(_core) { Ok(()) }

    fn cudaProfilerStop(_core) { Ok(()) }

    fn cudaDeviceReset(core) { core.reset_device(ThreadState::with(core.id, |thread| thread.device)) }

    fn cudaDeviceCanAccessPeer(core, can: Out<i32>, device: i32, peer: i32) = cuDeviceCanAccessPeer {
        let state = core.state.lock();
        let (device, peer) = (state.devices.ordinal(device)?, state.devices.ordinal(peer)?);
        can.put(i32::from(state.devices.can_access(device, peer)))
    }

    fn cudaDeviceGetP2PAttribute(core, value: Out<i32>, attribute: u32, from: i32, to: i32) = cuDeviceGetP2PAttribute {
        let state = core.state.lock();
        let (from, to) = (state.devices.ordinal(from)?, state.devices.ordinal(to)?);
        if from == to {
            return Err(Code::INVALID_DEVICE);
        }
        let (can, nvlink) = (state.devices.can_access(from, to), core.machine.topology.link() == PeerLink::NvLink);
        value.put(match attribute {
            // The rank: 0 is the best.
            1 => i32::from(!nvlink),
            2 => i32::from(can),
            // Native atomics, arrays.
            3 | 4 => i32::from(can && nvlink),
            5 if core.machine.cuda >= CudaVersion::V13_0 => 0,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    fn cudaDeviceEnablePeerAccess(core, peer: i32, flags: u32) {
        with_state(core, |state, device| {
            if flags != 0 {
                return Err(Code::INVALID_VALUE);
            }
            let peer = state.devices.ordinal(peer)?;
            state.devices.enable_peer(device, peer)
        })
    }

    fn cudaDeviceDisablePeerAccess(core, peer: i32) {
        with_state(core, |state, device| {
            let peer = state.devices.ordinal(peer)?;
            state.devices.disable_peer(device, peer)
        })
    }

    fn cudaMemGetInfo(core, free: Out<usize>, total: Out<usize>) = cuMemGetInfo_v2 {
        with_state(core, |state, device| {
            state.forget_unmapped();
            let device = &state.devices[device];
            free.put(device.unused_bytes() as usize)?;
            total.put(device.total_bytes as usize)
        })
    }

    fn cudaGetDriverEntryPoint(core, name: Text, function: Out<usize>, _flags: u64) {
        entry_point(core, &name, function, None)
    }

    fn cudaGetDriverEntryPoint_12(core, name: Text, function: Out<usize>, _flags: u64, status: Out<u32>) as "cudaGetDriverEntryPoint" {
        entry_point(core, &name, function, Some(status))
    }

    fn cudaGetDriverEntryPointByVersion(core, name: Text, function: Out<usize>, _version: u32, _flags: u64, status: Out<u32>) {
        entry_point(core, &name, function, Some(status))
    }
}
