//! Pools and stream-ordered allocation.

use std::sync::Arc;

use cuda_um_sys::{cudaMemLocation, cudaMemLocationType};

use super::guard::{Outcome, entry_points, with_state, with_work_stream};
use super::pointer::{Array, Out};
use crate::engine::{Code, Core, Home, Pool, PoolAttribute, Pools, State};
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

impl AccessDescription {
    /// The device that it names.
    pub(super) fn device(&self) -> Result<i32, Code> {
        located_on(self.location)
    }

    /// The description of a device that reads and writes.
    pub(super) fn bytes(device: usize) -> impl Iterator<Item = u8> {
        [1, device as u32, 3].into_iter().flat_map(u32::to_ne_bytes)
    }
}

impl PoolProps {
    /// Whether its memory is managed, and the device that it is on first.
    pub(super) fn place(&self) -> Result<(bool, i32), Code> {
        match (self.kind, self.location.type_.0) {
            (PINNED, _) => Ok((false, located_on(self.location)?)),
            (MANAGED, 1) => Ok((true, self.location.id)),
            (MANAGED, 0 | 2..=4) => Ok((true, 0)),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// The properties of a pool that is first on a device.
    pub(super) fn of(managed: bool, device: usize) -> PoolProps {
        PoolProps {
            kind: if managed { MANAGED } else { PINNED },
            handle_types: 0,
            location: cudaMemLocation {
                type_: cudaMemLocationType(1),
                id: device as i32,
            },
            security: 0,
            max_bytes: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }
}

/// The device that a location names.
fn located_on(location: cudaMemLocation) -> Result<i32, Code> {
    match location.type_.0 {
        1 => Ok(location.id),
        _ => Err(Code::INVALID_VALUE),
    }
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

/// Passes the default pool and the current one of a location and kind to `use_it`.
fn located(
    core: &Core,
    location: Out<cudaMemLocation>,
    kind: u32,
    use_it: impl FnOnce(&mut Pools, [&mut usize; 2]) -> Outcome,
) -> Outcome {
    supported(core)?;
    let location = location.get()?;
    let State { pools, devices, .. } = &mut *core.state.lock();
    let on_device = match location.type_.0 {
        1 => Some(devices.ordinal(location.id)?),
        0 if kind == MANAGED => None,
        2..=4 => None,
        _ => return Err(Code::INVALID_VALUE),
    };
    match (kind, on_device) {
        (PINNED, Some(device)) => {
            let device = &mut devices[device];
            let mut default = device.default_pool;
            use_it(pools, [&mut default, &mut device.pool])
        }
        (PINNED | MANAGED, _) if core.machine.batch_calls() => {
            let place = (kind == MANAGED, location.type_.0, location.id);
            let [mut default, mut current] = *pools.of_place(place);
            use_it(pools, [&mut default, &mut current])?;
            *pools.of_place(place) = [default, current];
            Ok(())
        }
        (PINNED | MANAGED, _) => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_VALUE),
    }
}

entry_points! { Runtime;
    fn cudaMallocAsync(core, pointer: Out<usize>, bytes: usize, stream: usize) = cuMemAllocAsync { allocate(core, pointer, bytes, None, stream) }

    fn cudaMallocFromPoolAsync(core, pointer: Out<usize>, bytes: usize, pool: usize, stream: usize) = cuMemAllocFromPoolAsync {
        allocate(core, pointer, bytes, Some(pool), stream)
    }

    fn cudaMemPoolCreate(core, pool: Out<usize>, props: Out<PoolProps>) = cuMemPoolCreate {
        supported(core)?;
        let props = props.get()?;
        let home = match props.kind {
            PINNED if props.location.type_.0 != 1 => Home::Host,
            PINNED => Home::Device,
            MANAGED if core.machine.cuda >= CudaVersion::V13_0 => Home::Managed,
            _ => return Err(Code::INVALID_VALUE),
        };
        let modern = core.machine.cuda >= CudaVersion::V12_2;
        let max_bytes = if modern { props.max_bytes } else { 0 };
        if home != Home::Device && !core.machine.batch_calls() {
            return Err(Code::NOT_SUPPORTED);
        }
        if home == Home::Managed && (props.handle_types != 0 || max_bytes != 0 || props.usage != 0) {
            return Err(Code::INVALID_VALUE);
        }
        with_state(core, |state, device| {
            let device = match (props.location.type_.0, home) {
                (1, _) => state.devices.ordinal(props.location.id).map_err(|_| Code::INVALID_VALUE)?,
                // A managed pool may have no preferred place.
                (0, Home::Managed) | (2..=4, _) => device,
                _ => return Err(Code::INVALID_VALUE),
            };
            pool.put(state.pools.add(Pool::new(device, home, max_bytes as u64)))
        })
    }

    fn cudaMemPoolDestroy(core, pool: usize) = cuMemPoolDestroy {
        with_state(core, |state, _| state.pools.destroy(pool, &mut state.devices))
    }

    fn cudaMemPoolTrimTo(core, pool: usize, keep: usize) = cuMemPoolTrimTo {
        with_state(core, |state, _| {
            state.pools.get(pool)?;
            state.pools.trim(pool, keep as u64, &mut state.devices);
            Ok(())
        })
    }

    fn cudaMemPoolSetAttribute(core, pool: usize, attribute: u32, value: Out<u64>) = cuMemPoolSetAttribute {
        let attribute = PoolAttribute::from_raw(attribute)?;
        let value = if matches!(attribute, PoolAttribute::Reuse(_)) { value.cast::<i32>().get()? as u64 } else { value.get()? };
        core.state.lock().pools.get(pool)?.set(attribute, value)
    }

    fn cudaMemPoolGetAttribute(core, pool: usize, attribute: u32, value: Out<u64>) = cuMemPoolGetAttribute {
        let attribute = PoolAttribute::from_raw(attribute)?;
        let found = core.state.lock().pools.get(pool)?.get(attribute);
        if matches!(attribute, PoolAttribute::Reuse(_)) { value.cast::<i32>().put(found as i32) } else { value.put(found) }
    }

    fn cudaMemPoolSetAccess(core, pool: usize, descriptions: Array<AccessDescription>, count: usize) = cuMemPoolSetAccess {
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

    fn cudaMemPoolGetAccess(core, flags: Out<u32>, pool: usize, location: Out<cudaMemLocation>) = cuMemPoolGetAccess {
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

    fn cudaDeviceGetDefaultMemPool(core, pool: Out<usize>, device: i32) = cuDeviceGetDefaultMemPool {
        supported(core)?;
        let state = core.state.lock();
        pool.put(state.devices[state.devices.ordinal(device)?].default_pool)
    }

    fn cudaDeviceGetMemPool(core, pool: Out<usize>, device: i32) = cuDeviceGetMemPool {
        supported(core)?;
        let state = core.state.lock();
        pool.put(state.devices[state.devices.ordinal(device)?].pool)
    }

    fn cudaDeviceSetMemPool(core, device: i32, pool: usize) = cuDeviceSetMemPool {
        supported(core)?;
        let mut state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        if state.pools.get(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        state.devices[device].pool = pool;
        Ok(())
    }

    fn cudaMemGetDefaultMemPool(core, pool: Out<usize>, location: Out<cudaMemLocation>, kind: u32) = cuMemGetDefaultMemPool {
        located(core, location, kind, |_, [default, _]| pool.put(*default))
    }

    fn cudaMemGetMemPool(core, pool: Out<usize>, location: Out<cudaMemLocation>, kind: u32) = cuMemGetMemPool {
        located(core, location, kind, |_, [_, current]| pool.put(*current))
    }

    fn cudaMemSetMemPool(core, location: Out<cudaMemLocation>, kind: u32, pool: usize) = cuMemSetMemPool {
        located(core, location, kind, |pools, [default, current]| {
            let (device, home) = pools.get(*default).map(|pool| (pool.device, pool.home))?;
            let given = pools.get(pool)?;
            if (given.device, given.home) != (device, home) {
                return Err(Code::INVALID_VALUE);
            }
            *current = pool;
            Ok(())
        })
    }
}
