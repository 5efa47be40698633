//! Settings that accept any value, and settings that are checked.

use crate::bad_input::world::{LEN, World, cases, run};
use cuda_um::{MemoryKind, PoolOptions, buffer::TransferOptions};

#[test]
fn default_pools() {
    run(cases! {
        "Device::set_pool_options", "slabs of 1 byte": |w| w.device.set_pool_options(MemoryKind::Pinned, PoolOptions::default().slab_bytes(1))
            => InvalidArgument, ["the size of a pool's slabs cannot be 1 bytes", "multiple of 2 MiB"];
        "Device::set_pool_options", "a pool in use": |w| {
            w.device.pool(MemoryKind::Managed)?;
            w.device.set_pool_options(MemoryKind::Managed, None)
        } => InvalidArgument, ["the options of a default pool cannot be None", "before the first use of managed memory on device 0"];
    });
}

/// `TransferOptions` accepts any number: the extreme values mean "as many as useful" and "off".
#[test]
fn transfer_options_of_any_size() {
    let world = World::new();
    let numbers: Vec<u32> = (0..LEN as u32).collect();
    for threads in [0, 1, 3, usize::MAX / 2 + 1, usize::MAX] {
        for bytes in [0, 1, 4096, usize::MAX] {
            let options = TransferOptions::default().threads(threads);
            let from = options.ring_bytes(bytes);
            world.device.set_transfer_options(from);
            let mut buffer = cuda_um::DeviceBuffer::from_slice(&world.device, &numbers).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), numbers, "{from:?}");
            buffer
                .host_overwrite(.., |at, slots| slots.fill_with(|i| (at + i) as u32 * 3))
                .unwrap();
            assert_eq!(buffer.to_vec().unwrap()[LEN - 1], LEN as u32 * 3 - 3);
        }
    }
}
