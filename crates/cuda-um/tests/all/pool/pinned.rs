//! Pools of pinned memory: addresses for kernels, and waits of the host.

use crate::pool::*;
use cuda_um::PinnedBuffer;

#[test]
fn kernels_get_the_blocks_own_address() {
    let (_sim, device, _) = device();
    let pool = Pool::new(&device, MemoryKind::Pinned, small_slabs()).unwrap();
    let buffers = [(); 3].map(|()| PinnedBuffer::<u32>::zeroed_in(&pool, 100).unwrap());
    // The difference between the device address and the host address of a slab.
    let distance = |buffer: &PinnedBuffer<u32>| {
        buffer.device_ptr().unwrap().addr() as isize - buffer.as_ptr().addr() as isize
    };
    assert_eq!(distance(&buffers[0]), distance(&buffers[1]));
    assert_eq!(distance(&buffers[0]), distance(&buffers[2]));
    assert_ne!(buffers[0].device_ptr(), buffers[1].device_ptr());
    assert!(buffers.iter().all(|one| one.as_ptr().addr() % 256 == 0));
}

#[test]
fn nobody_waits_where_other_memory_is_free() {
    on_each(&[Pinned], |it| {
        let pool = it.pool();
        let mut target = DeviceBuffer::zeroed(&it.device, 100).unwrap();
        let spare = pool.zeroed(100).unwrap();
        it.device.synchronize().unwrap();
        let _paused = it.sim().pause();
        // A dropped buffer that a paused stream still copies from.
        copy(&pool.copy_of(&[4; 100]), &mut target, &it.stream);
        drop(spare); // the next block to be reused
        assert_eq!(pool.copy_of(&[5; 100]).to_vec().unwrap(), [5; 100]);
    });
}
