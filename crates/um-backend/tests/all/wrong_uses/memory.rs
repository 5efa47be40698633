//! Sizes, memory that is not there, and kinds of memory that cannot do it.

use um_backend::{
    Advice, Buffer, CudaBackend, CudaBackendConfig, DType, PinnedBuffer, UnifiedBuffer,
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
        "more device memory than there is" => |w| w.backend.create_buffer::<f32>(1 << 45, DType::F32);
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
        "a prefetch of a view of device memory, with `require()`" => |w| {
            let mut scores = w.on_device();
            scores.set_name("scores");
            scores.memory().device_view()?.prefetch(um_backend::Location::Host)?.require()
        };
    };
    check("Memory", &rows);
}
