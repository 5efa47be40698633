//! Objects for processes that end, or fork.

use crate::{Add, on_gpu};
use cuda_um::resource::{DriverPool, MemoryResource};
use cuda_um::{
    Device, DeviceBuffer, MemoryKind, PinnedBuffer, Pool, PoolOptions, RegisteredBuffer,
    UnifiedBuffer, buffer::TransferOptions,
};
use std::any::Any;

/// One object of every droppable type, with work in flight.
pub fn everything(device: &Device) -> Box<dyn Any + Send + Sync> {
    const LEN: usize = 5000;
    // Helper threads for copies, and pinned memory to stage them.
    device.set_transfer_options(TransferOptions::default().threads(3));
    let large = PinnedBuffer::from_slice(device, &vec![1u8; 8 << 20]).unwrap();
    let staged = DeviceBuffer::from_slice(device, &vec![1u8; 8 << 20]).unwrap();
    let options = PoolOptions::default().slab_bytes(4 << 20);
    let [unified, pinned] = [MemoryKind::Managed, MemoryKind::Pinned]
        .map(|kind| Pool::new(device, kind, options).unwrap());
    let kind = MemoryKind::Device;
    let memory: Box<dyn MemoryResource> = match DriverPool::new(device, kind, options) {
        Ok(pool) => Box::new(pool),
        Err(_) => Box::new(Pool::new(device, kind, options).unwrap()),
    };
    let [stream, other] = [(); 2].map(|()| device.create_stream().unwrap());
    let add = Add::load(device);
    let mut whole = UnifiedBuffer::<u8>::zeroed_in(&unified, 3 << 20).unwrap();
    whole.fill_on(3, &stream).unwrap();
    let mut buffers = (
        UnifiedBuffer::<u32>::zeroed(device, LEN).unwrap(),
        DeviceBuffer::<u32>::zeroed(device, LEN).unwrap(),
        PinnedBuffer::<u32>::zeroed(device, LEN).unwrap(),
        RegisteredBuffer::from_vec(device, vec![0u32; LEN]).unwrap(),
        UnifiedBuffer::<u32>::zeroed_in(&unified, LEN).unwrap(),
        DeviceBuffer::<u32>::zeroed_in(&*memory, LEN).unwrap(),
        PinnedBuffer::<u32>::zeroed_in(&pinned, LEN).unwrap(),
    );
    // A GPU is faster.
    let rounds = if on_gpu() { 2000 } else { 3 };
    for stream in [&stream, &other] {
        let (a, b, c, d, e, f, g) = &mut buffers;
        add.run(stream, a, LEN, rounds);
        add.run(stream, c, LEN, rounds);
        add.run(stream, d, LEN, rounds);
        add.run(stream, e, LEN, rounds);
        add.run(stream, g, LEN, rounds);
        b.fill_on(1, stream).unwrap();
        f.fill_on(1, stream).unwrap();
    }
    let event = stream.record().unwrap();
    let pools = (unified, pinned, memory);
    Box::new((
        buffers, whole, large, staged, event, add, pools, stream, other,
    ))
}
