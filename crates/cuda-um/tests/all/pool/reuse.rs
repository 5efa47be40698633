//! Memory has a new owner, with the right contents; the numbers of a pool.

use crate::pool::*;
use cuda_um::Error;
use cuda_um_sim::Fail;
use cuda_um_sys::cudaError;

#[test]
fn a_warm_allocation_calls_nobody() {
    on_each(IN_SLABS, |it| {
        let pool = it.pool();
        let mut first = pool.zeroed(1000).unwrap();
        let place = address(&first);
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
            let again = pool.copy_of(&[round; 990]);
            assert_eq!(address(&again), place, "990 elements fit as well");
            assert_eq!(again.to_vec().unwrap(), [round; 990]);
            drop(again);
            let again = pool.zeroed(990).unwrap();
            assert_eq!(again.to_vec().unwrap(), [0; 990], "not the former owner's");
        }
        assert_eq!(it.calls(it.names().0), 0);
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
        drop(buffers);
        it.device.synchronize().unwrap();
        let stats = pool.stats();
        assert_eq!((stats.live_buffers, stats.live_bytes), (0, 0));
        assert_eq!(stats.peak_bytes, live);
        assert_eq!(pool.trim(), reserved);
        assert_eq!(pool.stats().reserved_bytes, 0);
        let text = format!("{pool:?}");
        assert!(text.contains("peak_bytes"), "{text}");
    });
}

/// claim 3
#[test]
fn a_slab_that_lost_a_block_is_never_freed() {
    on_each(IN_SLABS, |it| {
        let pool = it.pool();
        let mut lost = pool.zeroed(100).unwrap();
        let whole = pool.zeroed(2 * MIB).unwrap();
        lost.fill_on(1, &it.stream);
        let broken = Fail::call("cudaStreamSynchronize");
        it.sim()
            .fail(broken.with(cudaError::cudaErrorIllegalAddress));
        it.sim().breaks("an injected error breaks it");
        fails!(lost.close(), Error::Sticky { .. });
        assert_eq!(pool.stats().live_buffers, 2, "the block did not come back");
        assert_eq!(pool.trim(), 0);
        drop((whole, pool));
        assert!(it.device.runtime().reclaim().is_err());
        let (allocated, freed) = (it.calls(it.names().0), it.calls(it.names().1));
        assert!(freed < allocated, "the slab of the lost block");
    });
}
