//! Streams and memory of other libraries that an import does not allow, and wrong exports.
#![allow(unsafe_code, reason = "plays the other library")]

use crate::bad_input::world::{World, cases, run};
use cuda_um::{
    DeviceBuffer, MemoryKind, PinnedBuffer, PoolOptions, Result, UnifiedBuffer,
    buffer::Exported,
    resource::{DeviceMemory, DriverPool},
};
use std::ptr::NonNull;
use std::sync::Arc;

fn at<T>(address: *const T) -> NonNull<T> {
    NonNull::new(address.cast_mut()).unwrap()
}

/// A read-only import of a buffer.
fn read_only(world: &World) -> Result<UnifiedBuffer<u32>> {
    let (address, len) = (at(world.unified.as_ptr()), world.unified.len());
    // SAFETY: nothing uses the memory during the call.
    let import = unsafe { UnifiedBuffer::from_foreign(&world.device, address, len, ()) };
    import.map(UnifiedBuffer::read_only)
}

/// An import of so many elements of an allocation of 1,000, from this byte on.
fn of_allocation(world: &World, byte: usize, len: usize) -> Result<()> {
    let theirs = DeviceBuffer::<u32>::zeroed_in(&DeviceMemory::new(&world.device), 1000)?;
    world.device.synchronize()?;
    let address = at(theirs.as_ptr().wrapping_byte_add(byte));
    // SAFETY: it is refused.
    unsafe { DeviceBuffer::from_foreign(&world.device, address, len, ()) }.map(drop)
}

/// claim 9
#[test]
fn imports_exports_and_foreign_work() {
    run(cases! {
        "Device::adopt_stream", "a stream of another device": |w| {
            // SAFETY: it is refused.
            unsafe { w.device.adopt_stream(w.second.1.as_raw(), ()) }
        } => InvalidArgument, ["the stream belongs to device 1, not to device 0"];
        "UnifiedBuffer::from_foreign", "device memory": |w| {
            let address = at(w.on_device.as_ptr());
            // SAFETY: it is refused.
            unsafe { UnifiedBuffer::from_foreign(&w.device, address, 10, ()) }
        } => InvalidArgument, ["it is device memory, and the import allows managed memory"];
        "DeviceBuffer::from_foreign", "memory of another device": |w| {
            let address = at(w.on_second.as_ptr());
            // SAFETY: it is refused.
            unsafe { DeviceBuffer::from_foreign(&w.device, address, 10, ()) }
        } => InvalidArgument, ["the memory belongs to device 1, not to device 0"];
        "PinnedBuffer::from_foreign", "memory that is not pinned": |w| {
            let _ = &w;
            let address = at([0u32; 4].as_ptr());
            // SAFETY: it is refused.
            unsafe { PinnedBuffer::from_foreign(&w.device, address, 4, ()) }
        } => InvalidArgument, ["memory that CUDA does not know", "pinned memory"];
        "Device::adopt_stream", "a destroyed stream": |w| {
            let gone = w.device.create_stream()?.as_raw();
            // SAFETY: the simulator notices it.
            unsafe { w.device.adopt_stream(gone, ()) }
        } => InvalidArgument, ["a live stream of the primary context of device 0"];
        "DeviceBuffer::from_foreign", "an element more than the allocation has": |w| of_allocation(w, 0, 1001)
            => InvalidArgument, ["4004 bytes long", "4000 bytes there"];
        "DeviceBuffer::from_foreign", "an element more than the rest of the allocation has": |w| of_allocation(w, 4, 1000)
            => InvalidArgument, ["4000 bytes long", "3996 bytes there"];
        "DeviceBuffer::from_foreign", "an address that is not aligned": |w| of_allocation(w, 2, 4)
            => InvalidArgument, ["multiples of 4"];
        "DeviceBuffer::from_foreign", "more than can be addressed": |w| of_allocation(w, 0, usize::MAX / 2)
            => InvalidArgument, ["elements of 4 bytes"];
        "DeviceBuffer::from_foreign", "freed memory": |w| {
            let freed = DeviceBuffer::<u32>::zeroed_in(&DeviceMemory::new(&w.device), 10)?;
            let address = at(freed.as_ptr());
            freed.close()?;
            // SAFETY: it is refused.
            unsafe { DeviceBuffer::from_foreign(&w.device, address, 10, ()) }
        } => InvalidArgument, ["memory that CUDA does not know"];
        "UnifiedBuffer::from_foreign", "a longer range than the allocation": |w| {
            let address = at(w.unified.as_ptr());
            // SAFETY: it is refused.
            unsafe { UnifiedBuffer::from_foreign(&w.device, address, 1 << 30, ()) }
        } => InvalidArgument, ["4294967296 bytes long", "to the end of the allocation"];
        "Stream::enqueue_foreign", "a buffer of another runtime": |w| {
            // SAFETY: the closure is not called.
            unsafe { w.stream.enqueue_foreign((&w.of_other,), |_| ()) }
        } => InvalidArgument, ["belongs to another runtime"];
        "Stream::enqueue_foreign", "a write to a read-only import": |w| {
            let mut import = read_only(w)?;
            // SAFETY: the closure is not called.
            unsafe { w.stream.enqueue_foreign((&mut import,), |_| ()) }
        } => InvalidArgument, ["a read-only import"];
        "Exported::new", "a stream of another runtime": |w| {
            let import = Arc::new(read_only(w)?);
            Exported::new(import, &w.other.1, |buffer| Ok(buffer.as_view()))
        } => InvalidArgument, ["the buffer belongs to another runtime"];
        "Exported::new_mut", "a read-only import": |w| {
            let import = Arc::new(read_only(w)?);
            // SAFETY: it is refused.
            unsafe { Exported::new_mut(import, &w.stream, |buffer| Ok(buffer.as_view())) }
        } => InvalidArgument, ["a read-only import"];
        "UnifiedBuffer::export", "a stream of another runtime": |w| Arc::new(read_only(w)?).export(&w.other.1)
            => InvalidArgument, ["the buffer belongs to another runtime"];
        "UnifiedBuffer::export_mut", "a read-only import": |w| {
            let import = Arc::new(read_only(w)?);
            // SAFETY: it is refused.
            unsafe { import.export_mut(&w.stream) }
        } => InvalidArgument, ["a read-only import"];
        "Exported::returned_on", "a stream of another runtime": |w| {
            Arc::new(read_only(w)?).export(&w.stream)?.returned_on(&w.other.1)
        } => InvalidArgument, ["the buffer belongs to another runtime"];
        "DriverPool::new", "slabs of 3 MiB": |w| DriverPool::new(&w.device, MemoryKind::Managed, PoolOptions::default().slab_bytes(3 << 20))
            => InvalidArgument, ["multiple of 2 MiB"];
        "DriverPool::new", "a limit of managed memory": |w| DriverPool::new(&w.device, MemoryKind::Managed, PoolOptions::default().limit_bytes(3 << 20))
            => NotSupported, ["PoolOptions::limit_bytes", "device memory"];
        "UnifiedBuffer::into_raw", "a buffer without elements": |w| {
            let buffer = UnifiedBuffer::<u8>::zeroed_in(&w.unified_pool, 0)?;
            buffer.into_raw(&w.stream).map_err(|(_, error)| error)
        } => NotSupported, ["a buffer with elements in memory of a DriverPool"];
    });
}
