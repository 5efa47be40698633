//! Erased buffers with other types and sizes, streams that do not fit, and hints for ranges.

use std::sync::Arc;

use um_backend::{
    Advice, Buffer, BufferKind, DType, ErasedBuffer, HostBuffer, Location, Result, SharedBuffer,
    cuda_um::HostOwned,
};

use crate::world::{World, cases, run};

/// Ten f32 of the host.
fn erased(world: &World) -> Result<ErasedBuffer> {
    world
        .backend
        .create_erased(BufferKind::Host, DType::F32, 10)
}

#[test]
#[allow(unsafe_code, reason = "calls a function that fails")]
fn erased_buffers_that_cannot_be() {
    run(cases! {
        "DType::from_str", "another name": |_w| "float33".parse::<DType>()
            => InvalidArgument, ["a dtype cannot be \"float33\"", "bool, f8e4m3", "opaque with a number of bytes"];
        "CudaBackend::create_erased", "usize::MAX": |w| w.backend.create_erased(BufferKind::Cuda, DType::F64, usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 8 bytes"];
        "CudaBackend::create_erased", "no bytes": |w| w.backend.create_erased(BufferKind::Host, DType::Opaque(0), 1)
            => InvalidArgument, ["a dtype cannot be opaque0: an element has at least one byte"];
        // SAFETY: the call fails.
        "CudaBackend::create_erased_uninit", "usize::MAX": |w| unsafe { w.backend.create_erased_uninit(BufferKind::Host, DType::C128, usize::MAX) }
            => TooLarge, ["18446744073709551615 elements of 16 bytes"];
        "CudaBackend::create_erased_from", "part of an element": |w| w.backend.create_erased_from(BufferKind::Host, DType::F32, &[0; 7])
            => InvalidArgument, ["the source of copy_from_bytes cannot be 7 bytes: the buffer has 4 bytes"];
        "ErasedBuffer::from_bytes", "part of an element": |_w| ErasedBuffer::from_bytes(Box::new(HostBuffer::<u8>::zeroed(7)?), DType::F32)
            => InvalidArgument, ["cannot be 7 bytes: an element has 4 bytes"];
        "ErasedBuffer::clone_empty", "usize::MAX": |w| erased(w)?.clone_empty(usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 4 bytes"];
    });
}

/// Ten f32 of the host, shared.
fn shared(world: &World) -> Result<SharedBuffer> {
    Ok(erased(world)?.into())
}

#[test]
fn shared_storage() {
    run(cases! {
        "SharedBuffer::view", "5..11": |w| shared(w)?.view(5..11)
            => RangeOutOfBounds, ["range 5..11 is not within the buffer's 10 elements"];
        "SharedBuffer::cast", "opaque18": |w| shared(w)?.cast(DType::Opaque(18))
            => InvalidArgument, ["the dtype of a cast cannot be opaque18", "10 elements of f32 have 40 bytes", "no multiple of 18"];
        "SharedBuffer::read", "while the thread writes": |w| { let s = shared(w)?; let _guard = s.write()?; s.read().map(drop) }
            => WouldDeadlock, ["SharedBuffer::read: the caller could wait for its own guard", "in use by a write guard of this thread"];
        "SharedBuffer::write", "while the thread reads": |w| { let s = shared(w)?; let _guard = s.read()?; s.write().map(drop) }
            => WouldDeadlock, ["SharedBuffer::write", "a read guard", "ViewMut::split_at"];
        "SharedBuffer::read_async", "while the thread writes": |w| { let s = shared(w)?; let _guard = s.write()?; pollster::block_on(s.read_async()).map(drop) }
            => WouldDeadlock, ["SharedBuffer::read_async", "a write guard of this thread"];
        "SharedBuffer::write_async", "while the thread reads": |w| { let s = shared(w)?; let _guard = s.read()?; pollster::block_on(s.write_async()).map(drop) }
            => WouldDeadlock, ["SharedBuffer::write_async", "a read guard of this thread"];
        "SharedBuffer::try_read", "while the thread writes": |w| { let s = shared(w)?; let _guard = s.write()?; s.try_read().map(drop) }
            => StorageInUse, ["SharedBuffer::try_read: the storage is in use by a write guard"];
        "SharedBuffer::try_write", "while the thread reads": |w| { let s = shared(w)?; let _guard = s.read()?; s.try_write().map(drop) }
            => StorageInUse, ["SharedBuffer::try_write: the storage is in use by a read guard"];
        "SharedBuffer::make_unique", "while the thread writes": |w| { let mut s = shared(w)?; let _guard = s.write()?; s.make_unique() }
            => WouldDeadlock, ["SharedBuffer::make_unique"];
        "SharedBuffer::host", "f64": |w| shared(w)?.host::<f64>()
            => DTypeMismatch, ["dtype f64", "f32"];
        "SharedBuffer::host_mut", "f64": |w| shared(w)?.host_mut::<f64>()
            => DTypeMismatch, ["dtype f64", "f32"];
        "SharedRead::view", "memory of the host": |w| shared(w)?.read()?.view::<f32>().map(drop)
            => NotSupported, ["a view for kernels", "host memory"];
        "SharedWrite::view_mut", "u8": |w| shared(w)?.write()?.view_mut::<u8>().map(drop)
            => DTypeMismatch, ["dtype u8", "f32"];
    });
}

#[test]
fn other_types_and_sizes() {
    run(cases! {
        "ErasedBuffer::typed", "u32": |w| erased(w)?.typed::<u32>().map(drop)
            => DTypeMismatch, ["dtype u32 was requested, but the element type is f32"];
        "ErasedBuffer::typed_mut", "f64": |w| erased(w)?.typed_mut::<f64>().map(drop)
            => DTypeMismatch, ["dtype f64", "f32"];
        "ErasedBuffer::into_typed", "i8": |w| erased(w)?.into_typed::<i8>()
            => DTypeMismatch, ["dtype i8", "f32"];
        "HostOwned::new", "i32": |w| HostOwned::new(Arc::new(erased(w)?), |bytes| bytes.typed::<i32>()?.host())
            => DTypeMismatch, ["dtype i32", "f32"];
        "ErasedBuffer::copy_from_bytes", "39 bytes": |w| erased(w)?.copy_from_bytes(&[0; 39])
            => InvalidArgument, ["the source of copy_from_bytes cannot be 39 bytes: the buffer has 40 bytes, and its 10 elements are f32"];
        "ErasedBuffer::copy_to_bytes", "41 bytes": |w| erased(w)?.copy_to_bytes(&mut [0; 41])
            => InvalidArgument, ["the target of copy_to_bytes cannot be 41 bytes"];
        "ErasedBuffer::copy_from_bytes_at", "part of an element": |w| erased(w)?.copy_from_bytes_at(0, &[0; 6])
            => InvalidArgument, ["cannot be 6 bytes: an element has 4 bytes"];
        "ErasedBuffer::copy_to_bytes_at", "past the end": |w| erased(w)?.copy_to_bytes_at(9, &mut [0; 8])
            => RangeOutOfBounds, ["range 9..11 is not within the buffer's 10 elements"];
        "ErasedBuffer::copy_from", "bf16": |w| erased(w)?.copy_from(&w.backend.create_erased(BufferKind::Host, DType::BF16, 10)?)
            => ErasedMismatch, ["the source has dtype bf16, and the target has f32"];
        "ErasedBuffer::copy_from", "9 elements": |w| erased(w)?.copy_from(&erased(w)?.clone_empty(9)?)
            => LengthMismatch, ["copy_from: 10 elements expected, 9 found"];
        "ErasedBuffer::read_from", "past the end": |w| erased(w)?.read_from(&mut &[0u8; 100][..], 5..11)
            => RangeOutOfBounds, ["range 5..11 is not within the buffer's 10 elements"];
        "ErasedBuffer::write_to", "past the end": |w| erased(w)?.write_to(&mut Vec::new(), 11..11)
            => RangeOutOfBounds, ["range 11..11 is not within the buffer's 10 elements"];
    });
}

#[test]
fn streams_and_places_that_do_not_fit() {
    run(cases! {
        "Buffer::copy_from_host_on", "999 elements": |w| {
            let stream = w.backend.device().stream().clone();
            w.buffers[1].1.copy_from_host_on(&[9.0; 999], &stream)
        } => LengthMismatch, ["copy_from_host_on: 1000 elements expected, 999 found"];
        "Buffer::copy_to_host_on", "999 elements": |w| w.buffers[1].1.copy_to_host_on(&mut [9.0; 999], w.backend.device().stream())
            => LengthMismatch, ["copy_to_host_on: 1000 elements expected, 999 found"];
        "Buffer::copy_from_buffer_on", "5 elements": |w| {
            let stream = w.backend.device().stream().clone();
            w.buffers[0].1.copy_from_buffer_on(&HostBuffer::zeroed(5)?, &stream)
        } => LengthMismatch, ["copy_from_buffer_on: 1000 elements expected, 5 found"];
        "Buffer::fill_on", "another device's stream": |w| {
            let stream = w.backend.device().sibling(1)?.stream().clone();
            w.buffers[1].1.fill_on(9.0, &stream)
        } => DeviceMismatch, ["the stream belongs to device 1, not to device 0"];
        "Buffer::prefetch_range", "past the end": |w| w.buffers[0].1.prefetch_range_on(0..1001, Location::Host, w.backend.device().stream())
            => RangeOutOfBounds, ["range 0..1001 is not within the buffer's 1000 elements"];
        "Buffer::prefetch_range", "device 9": |w| w.buffers[0].1.prefetch_range_on(0..10, Location::Device(9), w.backend.device().stream())
            => NoSuchDevice, ["there is no device 9: the runtime has 2"];
        "Buffer::advise_range", "device 9": |w| w.buffers[0].1.advise_range(0..10, Advice::SetPreferredLocation(Location::Device(9)))
            => NoSuchDevice, ["there is no device 9: the runtime has 2"];
        "host_overwrite", "past the end": |w| w.unified.host_overwrite(999..1001, |_, slots| slots.fill_with(|_| 9.0))
            => RangeOutOfBounds, ["range 999..1001 is not within the buffer's 1000 elements"];
        "copy_from_host_async", "999 elements": |w| pollster::block_on(w.unified.copy_from_host_async(&[9.0; 999]))
            => LengthMismatch, ["copy_from_host_async: 1000 elements expected, 999 found"];
        "copy_to_host_async", "999 elements": |w| pollster::block_on(w.pinned.copy_to_host_async(&mut [9.0; 999]))
            => LengthMismatch, ["copy_to_host_async: 1000 elements expected, 999 found"];
        "CudaBackend::sibling", "a device too many": |w| w.backend.sibling(2)
            => NoSuchDevice, ["there is no device 2: the runtime has 2"];
    });
}
