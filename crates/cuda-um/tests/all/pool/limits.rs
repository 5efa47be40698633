//! The limit of a pool, and the end of the memory.

use crate::pool::*;
use cuda_um::Error;
use cuda_um_sim::{CudaVersion, Fail};
use cuda_um_sys::cudaError;

/// Pools of the driver have limits from CUDA 12.2 on.
fn limited(builder: Builder) -> Builder {
    builder.cuda(CudaVersion::V13_0)
}

#[test]
fn the_limit_holds_and_names_itself() {
    on_each_with(ALL, limited, |it| {
        let pool = it.open(small_slabs().limit_bytes(12 * MIB)).unwrap();
        let mut kept = Vec::from([(); 3].map(|()| pool.uninit(MIB).unwrap()));
        assert_eq!(pool.stats().reserved_bytes, 12 * MIB, "a smaller slab");
        // Slabs grow by 2 MiB.
        let least = if it.is(Driver) { 4 } else { 2 * MIB };
        let (allocates, _, what) = it.names();
        fails!(
            pool.uninit(1),
            Error::OutOfMemory { call, requested_bytes, free_bytes: 0, total_bytes, .. }
                if call == allocates && requested_bytes == least && total_bytes == 12 * MIB,
            "PoolOptions::limit_bytes",
            what
        );
        kept.pop();
        kept.push(pool.uninit(MIB).unwrap());
        assert_eq!(pool.stats().live_bytes, 12 * MIB);
        kept.drain(..2);
        kept.push(pool.uninit(2 * MIB).unwrap());
        assert!(pool.stats().reserved_bytes <= 12 * MIB);
    });
}

/// claim 31
#[test]
fn out_of_memory_trims_and_tries_again() {
    on_each(ALL, |it| {
        let (pool, (allocates, frees, _)) = (it.pool(), it.names());
        drop(pool.uninit(5 * MIB).unwrap());
        let refused = Fail::call(allocates).with(cudaError::cudaErrorMemoryAllocation);
        it.sim().fail(refused.clone());
        let small = pool.copy_of(&[1; 100]);
        assert_eq!(it.calls(frees), 1, "the 20 MiB made room");
        let reserved = pool.stats().reserved_bytes;
        assert_eq!(reserved, 2 * MIB, "the second attempt takes no more");
        it.sim().fail(refused.from_then_on());
        fails!(
            pool.uninit(MIB),
            Error::OutOfMemory { call, requested_bytes, total_bytes, .. }
                if call == allocates && requested_bytes == 4 * MIB && total_bytes > 0
        );
        it.sim().clear_failures();
        let stats = pool.stats();
        let live = if it.is(Driver) { 400 } else { 512 };
        assert_eq!((stats.live_buffers, stats.live_bytes), (1, live));
        assert_eq!(small.to_vec().unwrap(), [1; 100]);
    });
}

#[test]
fn a_full_device_serves_what_was_dropped() {
    let full = |builder: Builder| builder.total_memory_bytes(64 << 20);
    on_each_with(WAITLESS, full, |it| {
        let options = PoolOptions::default().slab_bytes(16 * MIB);
        let [pool, other] = [(); 2].map(|()| it.open(options).unwrap());
        drop(pool.uninit(9 * MIB).unwrap());
        let _kept = pool.uninit(MIB).unwrap();
        drop(pool.uninit(10 * MIB).unwrap());
        let frees = it.calls("cudaFree");
        assert!(it.is(Driver) || frees == 1, "the 36 MiB made room");
        fails!(
            pool.uninit(15 * MIB),
            Error::OutOfMemory { requested_bytes, total_bytes, .. }
                if (requested_bytes, total_bytes) == (60 * MIB, 64 * MIB)
        );
        // It gave its free memory back in vain.
        drop(pool.uninit(10 * MIB).unwrap());
        assert_eq!(other.stats().reserved_bytes, 0);
        let error = other.uninit(10 * MIB).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "free only for `pool`");
        it.device.synchronize().unwrap();
        pool.trim();
        drop(other.uninit(10 * MIB).unwrap());
        assert_eq!(pool.stats().live_buffers, 1);
    });
}

#[test]
fn the_peak_is_never_above_the_limit() {
    on_each_with(ALL, limited, |it| {
        let pool = it.open(small_slabs().limit_bytes(2 * MIB)).unwrap();
        for _ in 0..8 {
            // Each thread's shard keeps what it returned.
            std::thread::scope(|scope| {
                drop(scope.spawn(|| drop(pool.zeroed(100 * KIB).unwrap())).join())
            });
        }
        let peak = pool.stats().peak_bytes;
        assert!((400 * KIB..=2 * MIB).contains(&peak), "{peak}");
    });
}
