//! Many threads share a pool.

use crate::pool::any::Buffer;
use crate::pool::{ALL, MIB, Unified, on_each_here};
use cuda_um::{DeviceBuffer, PoolOptions};
use cuda_um_testkit::is_concurrent;
use std::sync::mpsc;

#[test]
fn threads_allocate_launch_and_free() {
    on_each_here(ALL, |it| {
        // Other devices refuse launches beside the host guards of other threads.
        if it.is(Unified) && !is_concurrent(&it.device) {
            return;
        }
        let options = PoolOptions::default().slab_bytes(4 * MIB);
        let Some(pool) = it.limited(options, 64 * MIB) else {
            return;
        };
        let (sender, receiver) = mpsc::channel::<(u32, Buffer)>();
        let check = |buffer: &Buffer, expected| {
            assert!(buffer.contents().iter().all(|found| *found == expected));
        };
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (pool, sender) = (&pool, sender.clone());
                scope.spawn(move || {
                    let streams = [(); 2].map(|()| it.device.create_stream().unwrap());
                    for round in 0..60u32 {
                        let len = 1 + (round as usize * 997 + thread as usize * 31) % 20_000;
                        let (value, stream) = (thread * 1000 + round, &streams[round as usize % 2]);
                        let mut buffer = pool.copy_of(&vec![value; len]).unwrap();
                        it.add(len, 3, &mut buffer, stream);
                        match round % 3 {
                            0 => {
                                let mut copy = DeviceBuffer::zeroed(&it.device, len).unwrap();
                                buffer.copy_to(&mut copy, stream);
                                drop(buffer); // the copy may still run
                                let mut back = pool.zeroed(len).unwrap();
                                back.copy_from(&copy, stream);
                                check(&back, value + 3);
                            }
                            1 => sender.send((value + 3, buffer)).unwrap(),
                            _ => drop(buffer),
                        }
                        if round % 16 == 0 {
                            pool.trim();
                        }
                    }
                });
            }
            drop(sender);
            for (expected, buffer) in receiver {
                check(&buffer, expected);
            }
        });
        it.device.synchronize().unwrap();
        let stats = pool.stats();
        assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0));
        pool.trim();
        assert_eq!(pool.stats().reserved_bytes, 0);
    });
}
