//! Allocation, registration and queries of memory.

use super::guard::{entry_points, with_state, with_stream};
use super::pointer::Out;
use crate::engine::{Attach, Code, Kind, Memory, Registered};
use crate::preset::CudaVersion;

/// `cudaMemAttachGlobal`, `cudaMemAttachHost`, `cudaMemAttachSingle`.
const ATTACH_GLOBAL: u32 = 1;
const ATTACH_HOST: u32 = 2;
const ATTACH_SINGLE: u32 = 4;
/// Portable, mapped, write-combined.
const HOST_ALLOC_FLAGS: u32 = 7;

/// `cudaExtent`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Extent {
    width: usize,
    height: usize,
    depth: usize,
}

entry_points! { Runtime;
    fn cudaMallocManaged(core, pointer: Out<usize>, bytes: usize, flags: u32) {
        core.call_unsafe()?;
        with_state(core, |state, device| {
            let attach = match flags {
                ATTACH_GLOBAL => Attach::Global,
                ATTACH_HOST => Attach::Host,
                _ => return Err(Code::INVALID_VALUE),
            };
            if pointer.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            let base = if bytes == 0 { 0 } else { state.allocate_managed(bytes, device, attach)? };
            pointer.put(base)
        })
    }

    fn cudaMalloc(core, pointer: Out<usize>, bytes: usize) {
        core.call_unsafe()?;
        with_state(core, |state, device| {
            if pointer.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            let base = if bytes == 0 { 0 } else { state.allocate_device(bytes, device)? };
            pointer.put(base)
        })
    }

    // Rows of 512 bytes, as GPUs of today have them.
    fn cudaMallocPitch(core, pointer: Out<usize>, pitch: Out<usize>, width: usize, height: usize) {
        let row = width.checked_next_multiple_of(512).ok_or(Code::MEMORY_ALLOCATION)?;
        let bytes = row.checked_mul(height).ok_or(Code::MEMORY_ALLOCATION)?;
        bodies::cudaMalloc(core, pointer, bytes)?;
        pitch.put(row)
    }

    // Pointer, pitch, width and height; the width, height and depth that are asked for.
    fn cudaMalloc3D(core, pitched: Out<[usize; 4]>, extent: Extent) {
        let (mut pointer, mut pitch) = (0, 0);
        let rows = extent.height.checked_mul(extent.depth).ok_or(Code::MEMORY_ALLOCATION)?;
        bodies::cudaMallocPitch(core, Out::of(&mut pointer), Out::of(&mut pitch), extent.width, rows)?;
        pitched.put([pointer, pitch, extent.width, extent.height])
    }

    fn cudaHostAlloc(core, pointer: Out<usize>, bytes: usize, flags: u32) {
        core.call_unsafe()?;
        with_state(core, |state, device| {
            if pointer.is_null() || flags & !HOST_ALLOC_FLAGS != 0 {
                return Err(Code::INVALID_VALUE);
            }
            let base = if bytes == 0 { 0 } else { state.allocate_pinned(bytes, device, flags)? };
            pointer.put(base)
        })
    }

    fn cudaMallocHost(core, pointer: Out<usize>, bytes: usize) = cuMemAllocHost_v2 { bodies::cudaHostAlloc(core, pointer, bytes, 0) }

    fn cudaHostRegister(core, pointer: usize, bytes: usize, flags: u32) = cuMemHostRegister_v2 {
        core.call_unsafe()?;
        with_state(core, |state, device| {
            state.memory.registered.register(pointer, Registered { bytes, flags, device })?;
            state.registered(bytes);
            Ok(())
        })
    }

    fn cudaHostUnregister(core, pointer: usize) = cuMemHostUnregister {
        core.call_unsafe()?;
        core.wait_device(None)?;
        core.state.lock().memory.registered.unregister(pointer)
    }

    fn cudaHostGetDevicePointer(core, device_pointer: Out<usize>, pointer: usize, flags: u32) = cuMemHostGetDevicePointer_v2 {
        let state = core.state.lock();
        if flags != 0 || state.memory.find(pointer, 1)?.memory != Memory::Pinned {
            return Err(Code::INVALID_VALUE);
        }
        // With unified addressing the device uses the host's pointer.
        device_pointer.put(pointer)
    }

    fn cudaHostGetFlags(core, flags: Out<u32>, pointer: usize) = cuMemHostGetFlags {
        let state = core.state.lock();
        let allocated = state.memory.holding(pointer).and_then(|allocation| match allocation.kind {
            Kind::Pinned { flags } => Some(flags),
            _ => None,
        });
        let found = allocated.or_else(|| state.memory.registered.holding(pointer).map(|(_, registered)| registered.flags));
        // With unified addressing all pinned memory is mapped.
        flags.put(found.ok_or(Code::INVALID_VALUE)? | 2)
    }

    fn cudaPointerGetAttributes(core, attributes: Out<u64>, pointer: usize) {
        const UNREGISTERED: u32 = 0;
        const HOST: u32 = 1;
        const DEVICE: u32 = 2;
        const MANAGED: u32 = 3;
        let (kind, device, on_device, on_host) = {
            let state = core.state.lock();
            // Not `find`: a query of freed memory is no use of it.
            let allocation = state.memory.holding(pointer);
            let owner = state.memory.owner(pointer) as i32;
            match allocation.map(|allocation| allocation.kind) {
                Some(Kind::Managed) => (MANAGED, owner, pointer, pointer),
                Some(Kind::Device(ordinal)) => (DEVICE, ordinal as i32, pointer, 0),
                Some(Kind::Pinned { .. }) => (HOST, owner, pointer, pointer),
                None if state.memory.registered.holding(pointer).is_some() => (HOST, owner, pointer, pointer),
                None if core.machine.profile.pageable_memory_access => (UNREGISTERED, -2, pointer, pointer),
                None => (UNREGISTERED, -2, 0, pointer),
            }
        };
        attributes.put(u64::from(kind) | u64::from(device as u32) << 32)?;
        attributes.put_at(1, on_device as u64)?;
        attributes.put_at(2, on_host as u64)?;
        if core.machine.cuda >= CudaVersion::V13_0 {
            // The struct has a reserved tail from 13 on.
            for index in 3..11 {
                attributes.put_at(index, 0)?;
            }
        }
        Ok(())
    }

    fn cudaStreamAttachMemAsync(core, stream: usize, pointer: usize, bytes: usize, flags: u32) = cuStreamAttachMemAsync {
        let named = stream;
        with_stream(core, stream, |state, stream| {
            let attach = match flags {
                ATTACH_GLOBAL => Attach::Global,
                ATTACH_HOST => Attach::Host,
                ATTACH_SINGLE if named > 2 => Attach::Single(stream.handle),
                _ => return Err(Code::INVALID_VALUE),
            };
            let Some(allocation) = state.memory.holding(pointer).filter(|allocation| allocation.is_managed()) else {
                return Err(Code::INVALID_VALUE);
            };
            // Only whole allocations can be attached.
            if allocation.base != pointer || (bytes != 0 && bytes != allocation.bytes) {
                return Err(Code::INVALID_VALUE);
            }
            state.attach(core, stream, pointer, attach);
            Ok(())
        })
    }
}
