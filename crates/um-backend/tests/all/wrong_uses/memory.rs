//! Sizes, memory that is not there, and kinds of memory that cannot do it.

use std::ptr::NonNull;

use um_backend::cuda_um::{self, resource::PinnedMemory};
use um_backend::{
    Advice, Buffer, CudaBackend, CudaBackendConfig, PinnedBuffer, UnifiedBuffer,
    cuda_um::{Placement, PoolOptions, RegisteredBuffer, UnifiedOptions},
};

use crate::wrong_uses::page::check;
use crate::wrong_uses::world::{World, rows};

fn with_pool(world: &World, options: PoolOptions) -> um_backend::Result<CudaBackend> {
    let config = CudaBackendConfig::default().simulator(world.sim.clone());
    CudaBackend::initialize_blocking(config.unified_pool(options))
}

#[test]
fn memory() {
    let rows = rows! {
        "`allocate_unified::<f32>(1 << 62)`" => |w| w.backend.allocate_unified::<f32>(1 << 62);
        "more device memory than there is" => |w| w.backend.create_cuda::<f32>(1 << 45);
        "more unified memory than the device has" => |w| {
            let _live = w.backend.allocate_unified::<u8>(40 << 20)?;
            w.backend.synchronize()?; // its pages are on the device
            w.backend.allocate_unified::<u8>(40 << 20)
        };
        "more than a pool's limit" => |w| with_pool(w, PoolOptions::default().limit_bytes(4 << 20))?.allocate_unified::<u8>(5 << 20);
        "a pool with slabs of 3 bytes" => |w| with_pool(w, PoolOptions::default().slab_bytes(3));
        "`RegisteredBuffer::scope` of memory that is pinned already" => |w| {
            let mut pinned = PinnedBuffer::<f32>::zeroed(w.backend.device(), 1000)?;
            let mut guard = pinned.host_mut()?;
            RegisteredBuffer::scope(w.backend.device(), &mut guard, |_| ())
        };
        "a host guard of a view of device memory" => |w| w.on_device().memory().device_view()?.host().map(drop);
        "advice for mapped memory, with `require()`" => |w| {
            let mapped = UnifiedOptions::default().placement(Placement::Mapped);
            let mut scores = UnifiedBuffer::<f32>::zeroed_with(w.backend.device(), 10, mapped)?;
            scores.set_name("scores");
            scores.advise(Advice::SetReadMostly)?.require()
        };
        "device memory as `UnifiedBuffer::from_foreign`" => |w| {
            let theirs = w.on_device();
            let pointer = NonNull::new(theirs.as_ptr().cast_mut()).ok_or("no address")?;
            // SAFETY: it is refused.
            unsafe { cuda_um::UnifiedBuffer::from_foreign(w.backend.device(), pointer, 10, theirs) }
        };
        "an import that exceeds its allocation" => |w| {
            let theirs = PinnedMemory::new(w.backend.device());
            let theirs = cuda_um::PinnedBuffer::<f32>::zeroed_in(&theirs, 10)?;
            let pointer = NonNull::new(theirs.as_ptr().cast_mut()).ok_or("no address")?;
            // SAFETY: it is refused.
            unsafe { cuda_um::PinnedBuffer::from_foreign(theirs.device(), pointer, 11, ()) }
        };
        "a write to a read-only import" => |w| {
            let theirs = w.unified();
            let pointer = NonNull::new(theirs.as_ptr().cast_mut()).ok_or("no address")?;
            w.backend.synchronize()?;
            let device = w.backend.device();
            // SAFETY: the owner keeps the memory, and nothing writes it.
            let import = unsafe { cuda_um::UnifiedBuffer::from_foreign(device, pointer, 10, theirs) };
            let mut import = import?.read_only();
            import.set_name("their weights");
            import.fill(1.0)
        };
        "`Placement::System` on a device without pageable memory access" => |w| {
            let options = UnifiedOptions::default().placement(Placement::System);
            cuda_um::UnifiedBuffer::<f32>::zeroed_with(w.backend.device(), 1, options).map(drop)
        };
        "`map_file` beyond the end of the file" => |w| {
            let (file, options) = (tempfile::tempfile()?, UnifiedOptions::default());
            // SAFETY: nothing else has the file.
            unsafe { cuda_um::UnifiedBuffer::<f32>::map_file(w.backend.device(), &file, ..4, options) }.map(drop)
        };
        "`into_raw` of memory that is not of a `DriverPool`" => |w| {
            let buffer = cuda_um::UnifiedBuffer::<f32>::zeroed(w.backend.device(), 10)?;
            buffer.into_raw(w.backend.device().stream()).map_err(|(_, error)| error)
        };
        "a prefetch of a view of device memory, with `require()`" => |w| {
            let mut scores = w.on_device();
            scores.set_name("scores");
            scores.memory().device_view()?.prefetch(um_backend::Location::Host)?.require()
        };
    };
    check("Memory", &rows);
}
