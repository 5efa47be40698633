//! Pools and stream-ordered allocation.

use std::sync::Arc;

use cuda_um_sys::cudaMemLocation;

use super::guard::{Outcome, entry_points, with_state, with_work_stream};
use super::pointer::{Array, Out};
use crate::engine::{Code, Core, Pool, PoolAttribute};
use crate::preset::CudaVersion;

/// `cudaMemAllocationTypePinned` and, from 13.0, `cudaMemAllocationTypeManaged`.
const PINNED: u32 = 1;
const MANAGED: u32 = 2;

/// The head of `cudaMemPoolProps`; `max_bytes` and `usage` are reserved bytes in 11.8.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct PoolProps {
    kind: u32,
    handle_types: u32,
    location: cudaMemLocation,
    security: usize,
    max_bytes: usize,
    usage: u16,
    reserved: [u8; 54],
}

/// `cudaMemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct AccessDescription {
    location: cudaMemLocation,
    flags: u32,
}

fn supported(core: &Core) -> Outcome {
    if core.machine.profile.memory_pools {
        Ok(())
    } else {
        Err(Code::NOT_SUPPORTED)
    }
}

fn allocate(
    core: &Arc<Core>,
    pointer: Out<usize>,
    bytes: usize,
    pool: Option<usize>,
    stream: usize,
) -> Outcome {
    supported(core)?;
    if pointer.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let try_it = || {
        with_work_stream(core, stream, |state, stream| {
            let pool = pool.unwrap_or(state.devices[stream.device].pool);
            if bytes == 0 {
                Ok(0)
            } else if state.graphs.is_capturing(stream)? {
                state.capture_allocation(stream, pool, bytes)
            } else {
                state.allocate_from_pool(pool, bytes)
            }
        })
    };
    let base = match try_it() {
        // Frees that streams have not run yet may make room.
        Err(Code::MEMORY_ALLOCATION)
            if core
                .state
                .lock()
                .memory
                .iter()
                .any(|allocation| allocation.freeing.is_some()) =>
        {
            core.wait_device(None)?;
            try_it()?
        }
        other => other?,
    };
    pointer.put(base)
}

/// The device of a location and kind that name a pool.
fn located(core: &Core, location: Out<cudaMemLocation>, kind: u32) -> Result<usize, Code> {
    supported(core)?;
    let location = location.get()?;
    if location.type_.0 != 1 || kind != PINNED {
        // Managed default pools and host pools are not simulated: their properties were not measured.
        return Err(Code::NOT_SUPPORTED);
    }
    core.state.lock().devices.ordinal(location.id)
}

entry_points! { Runtime;
    fn cudaMallocAsync(core, pointer: Out<usize>, bytes: usize, stream: usize) { allocate(core, pointer, bytes, None, stream) }

    fn cudaMallocFromPoolAsync(core, pointer: Out<usize>, bytes: usize, pool: usize, stream: usize) {
        allocate(core, pointer, bytes, Some(pool), stream)
    }

    fn cudaMemPoolCreate(core, pool: Out<usize>, props: Out<PoolProps>) {
        supported(core)?;
        let props = props.get()?;
        let managed = match props.kind {
            PINNED => false,
            MANAGED if core.machine.cuda >= CudaVersion::V13_0 => true,
            _ => return Err(Code::INVALID_VALUE),
        };
        let modern = core.machine.cuda >= CudaVersion::V12_2;
        let max_bytes = if modern { props.max_bytes } else { 0 };
        if managed && !core.machine.batch_calls() {
            return Err(Code::NOT_SUPPORTED);
        }
        if managed && (props.handle_types != 0 || max_bytes != 0 || props.usage != 0) {
            return Err(Code::INVALID_VALUE);
        }
        with_state(core, |state, device| {
            let device = match (props.location.type_.0, managed) {
                (1, _) => state.devices.ordinal(props.location.id).map_err(|_| Code::INVALID_VALUE)?,
                // A managed pool may have no preferred place.
                (0 | 2..=4, true) => device,
                _ => return Err(Code::INVALID_VALUE),
            };
            pool.put(state.pools.add(Pool::new(device, managed, max_bytes as u64)))
        })
    }

    fn cudaMemPoolDestroy(core, pool: usize) {
        with_state(core, |state, _| state.pools.destroy(pool, &mut state.devices))
    }

    fn cudaMemPoolTrimTo(core, pool: usize, keep: usize) {
        with_state(core, |state, _| {
            state.pools.get(pool)?;
            state.pools.trim(pool, keep as u64, &mut state.devices);
            Ok(())
        })
    }

    fn cudaMemPoolSetAttribute(core, pool: usize, attribute: u32, value: Out<u64>) {
        let attribute = PoolAttribute::from_raw(attribute)?;
        let value = if matches!(attribute, PoolAttribute::Reuse(_)) { value.cast::<i32>().get()? as u64 } else { value.get()? };
        core.state.lock().pools.get(pool)?.set(attribute, value)
    }

    fn cudaMemPoolGetAttribute(core, pool: usize, attribute: u32, value: Out<u64>) {
        let attribute = PoolAttribute::from_raw(attribute)?;
        let found = core.state.lock().pools.get(pool)?.get(attribute);
        if matches!(attribute, PoolAttribute::Reuse(_)) { value.cast::<i32>().put(found as i32) } else { value.put(found) }
    }

    fn cudaMemPoolSetAccess(core, pool: usize, descriptions: Array<AccessDescription>, count: usize) {
        let descriptions = descriptions.to_vec(count)?;
        let mut state = core.state.lock();
        let owner = state.pools.get(pool)?.device;
        for description in descriptions {
            let device = state.devices.ordinal(description.location.id)?;
            let reachable = device == owner || core.machine.profile.peers;
            // 0 is no access, 3 is read and write.
            let known = matches!(description.flags, 0 | 3);
            if description.location.type_.0 != 1 || !reachable || !known {
                return Err(Code::INVALID_VALUE);
            }
            // The owner always has read and write access.
            if device == owner && description.flags == 0 {
                return Err(Code::INVALID_DEVICE);
            }
            state.pools.get(pool)?.set_access(device, description.flags == 3);
        }
        Ok(())
    }

    fn cudaMemPoolGetAccess(core, flags: Out<u32>, pool: usize, location: Out<cudaMemLocation>) {
        let location = location.get()?;
        let mut state = core.state.lock();
        if location.type_.0 != 1 {
            return Err(Code::INVALID_VALUE);
        }
        let device = state.devices.ordinal(location.id)?;
        let pool = state.pools.get(pool)?;
        // 3 is read and write.
        flags.put(if device == pool.device || pool.accessible_from(device) { 3 } else { 0 })
    }

    fn cudaDeviceGetDefaultMemPool(core, pool: Out<usize>, device: i32) {
        supported(core)?;
        let state = core.state.lock();
        pool.put(state.devices[state.devices.ordinal(device)?].default_pool)
    }

    fn cudaDeviceGetMemPool(core, pool: Out<usize>, device: i32) {
        supported(core)?;
        let state = core.state.lock();
        pool.put(state.devices[state.devices.ordinal(device)?].pool)
    }

    fn cudaDeviceSetMemPool(core, device: i32, pool: usize) {
        supported(core)?;
        let mut state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        if state.pools.get(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        state.devices[device].pool = pool;
        Ok(())
    }

    fn cudaMemGetDefaultMemPool(core, pool: Out<usize>, location: Out<cudaMemLocation>, kind: u32) {
        let device = located(core, location, kind)?;
        pool.put(core.state.lock().devices[device].default_pool)
    }

    fn cudaMemGetMemPool(core, pool: Out<usize>, location: Out<cudaMemLocation>, kind: u32) {
        let device = located(core, location, kind)?;
        pool.put(core.state.lock().devices[device].pool)
    }

    fn cudaMemSetMemPool(core, location: Out<cudaMemLocation>, kind: u32, pool: usize) {
        let device = located(core, location, kind)?;
        let mut state = core.state.lock();
        if state.pools.get(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        state.devices[device].pool = pool;
        Ok(())
    }
}
