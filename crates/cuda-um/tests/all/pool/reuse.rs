//! Memory has a new owner, with the right contents; the numbers of a pool.

use crate::pool::{ALL, Driver, IN_SLABS, KIB, MIB, Pinned, WAITLESS, on_each, on_each_here};
use cuda_um::Error;
use cuda_um_sim::Leak;
use std::collections::HashSet;

#[test]
fn a_warm_allocation_calls_nobody() {
    on_each(IN_SLABS, |it| {
        let pool = it.pool();
        let mut first = pool.zeroed(1000).unwrap();
        let address = first.address();
        first.fill_on(3, &it.stream);
        drop(first);
        if it.is(Pinned) {
            // The host writes the zeros, so the allocation would wait for the fill.
            it.device.synchronize().unwrap();
        }
        it.sim().clear_trace();
        for _ in 0..100 {
            drop(pool.uninit(1000).unwrap());
        }
        assert!(it.sim().trace().is_empty(), "{:?}", it.sim().trace());
        for round in 0..50 {
            let again = pool.copy_of(&[round; 990]).unwrap();
            assert_eq!(again.address(), address, "990 elements fit as well");
            assert_eq!(again.contents(), [round; 990]);
            drop(again);
            let again = pool.zeroed(990).unwrap();
            assert_eq!(again.contents(), [0; 990], "not the former owner's");
        }
        assert_eq!(it.calls(it.names().0), 0);
    });
}

#[test]
fn dropped_memory_is_used_again() {
    on_each(ALL, |it| {
        let pool = it.pool();
        for _ in 0..50 {
            pool.zeroed(100_000).unwrap().fill_on(3, &it.stream);
            it.device.synchronize().unwrap();
        }
        let stats = pool.stats();
        assert!(stats.reserved_bytes <= 8 * MIB, "{stats:?}");
        assert!(stats.reserved_bytes > 0, "kept until a trim: {stats:?}");
        assert_eq!(pool.trim(), stats.reserved_bytes);
        assert_eq!(pool.stats().reserved_bytes, 0);
    });
}

#[test]
fn contents_are_right_and_apart() {
    on_each_here(ALL, |it| {
        let pool = it.pool();
        let mut buffers = Vec::new();
        for index in 0..200u32 {
            let len = 1 + (index as usize * 7919) % 9000;
            let mut buffer = pool.copy_of(&vec![index; len]).unwrap();
            let mut expected = index;
            if index % 3 == 0 {
                it.add(len, 5, &mut buffer, &it.stream);
                expected += 5;
            }
            buffers.push((expected, buffer));
            if index % 2 == 0 {
                buffers.swap_remove((index as usize * 31) % buffers.len());
            }
        }
        for (expected, buffer) in &buffers {
            assert!(buffer.contents().iter().all(|value| value == expected));
        }
    });
}

#[test]
fn blocks_are_aligned_within_their_slab() {
    on_each_here(IN_SLABS, |it| {
        let pool = it.pool();
        let mut kept = Vec::new();
        for (bytes, align) in [
            (4, 256),
            (64 * KIB, 64 * KIB),
            (5 * KIB, 4 * KIB),
            (80 * KIB, 16 * KIB),
            (2 * MIB, 2 * MIB),
            (300 * KIB, 64 * KIB),
            (3 * MIB, 2 * MIB),
        ] {
            let buffer = pool.zeroed(bytes / 4).unwrap();
            let at = buffer.address();
            kept.push(buffer);
            // The first one is at the start of the slab. GPUs align slabs to 2 MiB, the simulator to pages.
            let offset = at - kept[0].address();
            assert!(offset.is_multiple_of(align), "{bytes} at {offset}");
            assert!(at.is_multiple_of(align.min(4 * KIB)), "{bytes} at {at:x}");
        }
    });
}

#[test]
fn the_numbers_add_up() {
    on_each_here(ALL, |it| {
        if it.is(Driver) && it.sim.is_none() {
            return println!("NOT RUN: the driver chooses how much it reserves");
        }
        let pool = it.pool();
        assert_eq!(pool.stats(), Default::default());
        let buffers = [100, 70 * KIB, 5 * MIB].map(|bytes| pool.uninit(bytes / 4).unwrap());
        // Slabs have classes of sizes; the simulated driver's pool has the exact size, and grows by 2 MiB.
        let (live, reserved, slabs) = match it.kind {
            Driver => (100 + 70 * KIB + 5 * MIB, 6 * MIB, 0),
            _ => (256 + 80 * KIB + 6 * MIB, 14 * MIB, 2),
        };
        let stats = pool.stats();
        assert_eq!((stats.live_buffers, stats.live_bytes), (3, live));
        assert_eq!((stats.slabs, stats.reserved_bytes), (slabs, reserved));
        assert_eq!(stats.free_bytes, reserved - live);
        let largest = stats.largest_free_bytes;
        assert!(!it.is(Driver) || largest == stats.free_bytes);
        drop(buffers);
        it.device.synchronize().unwrap();
        let stats = pool.stats();
        assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0));
        assert_eq!(stats.peak_bytes, live);
        assert!(pool.stats().largest_free_bytes >= 6 * MIB);
        assert_eq!(pool.trim(), reserved);
        assert_eq!(pool.stats().reserved_bytes, 0);
        let text = format!("{pool:?}");
        assert!(text.contains("peak_bytes"), "{text}");
    });
}

#[test]
fn a_pool_goes_with_its_last_buffer() {
    on_each(ALL, |it| {
        let pool = it.pool();
        let mut buffer = pool.clone().zeroed(100).unwrap();
        let closed = pool.zeroed(100).unwrap();
        drop(pool);
        closed.close().unwrap();
        buffer.fill_on(6, &it.stream);
        assert_eq!(buffer.contents(), [6; 100]);
        let _paused = it.sim().pause();
        buffer.fill_on(7, &it.stream);
        drop(buffer);
        assert!(it.is(Driver) || it.calls(it.names().1) == 0, "in use");
    });
}

#[test]
fn a_slab_that_lost_a_block_is_never_freed() {
    on_each(IN_SLABS, |it| {
        let pool = it.pool();
        let mut lost = pool.zeroed(100).unwrap();
        let whole = pool.zeroed(2 * MIB).unwrap();
        lost.fill_on(1, &it.stream);
        it.break_at("cudaStreamSynchronize");
        let error = lost.close().unwrap_err();
        assert!(matches!(error, Error::Sticky { .. }), "{error}");
        assert_eq!(pool.stats().live_buffers, 2, "the block did not come back");
        assert_eq!(pool.trim(), 0);
        drop((whole, pool));
        assert!(it.device.runtime().reclaim().is_err());
        let (allocated, freed) = (it.calls(it.names().0), it.calls(it.names().1));
        assert!(freed < allocated, "the slab of the lost block");
    });
}

#[test]
fn after_a_sticky_error_drops_are_harmless() {
    on_each(WAITLESS, |it| {
        let pool = it.pool();
        let (idle, mut in_use) = (pool.zeroed(100).unwrap(), pool.zeroed(100).unwrap());
        it.device.synchronize().unwrap();
        in_use.fill_on(1, &it.stream);
        it.break_at("cudaStreamQuery");
        assert!(matches!(it.stream.is_idle(), Err(Error::Sticky { .. })));
        drop((idle, in_use));
        assert!(matches!(pool.zeroed(MIB), Err(Error::Sticky { .. })));
        pool.trim();
        let kept = if it.is(Driver) { 2 } else { 0 };
        assert_eq!(pool.stats().live_buffers, kept);
        drop(pool);
        let error = it.device.runtime().reclaim().unwrap_err();
        assert!(matches!(error, Error::Sticky { .. }), "{error}");
        let leaks = it.sim().leaks();
        let is_memory = |leak: &Leak| matches!(leak, Leak::Memory { .. });
        assert!(leaks.iter().any(is_memory), "rather than freed under work");
    });
}

#[test]
fn numbers_of_pooled_buffers_are_their_own() {
    on_each_here(ALL, |it| {
        let pool = it.pool();
        let take = || (0..400).map(|_| pool.zeroed(1).unwrap().id());
        let ids: Vec<u64> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| take().collect::<Vec<_>>()));
            let taken = threads.into_iter().map(|one| one.join().unwrap());
            taken.flatten().collect()
        });
        let apart: HashSet<_> = ids.iter().collect();
        assert_eq!(apart.len(), 1600);
        it.device.synchronize().unwrap();
        let stats = pool.stats();
        assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0));
        // Each thread had one buffer at a time, and its freed block stayed counted in its shard. The driver counts frees that have not run.
        let most = if it.is(Driver) { 1600 * 512 } else { 4 * 256 };
        assert!((4..=most).contains(&stats.peak_bytes), "{stats:?}");
    });
}
