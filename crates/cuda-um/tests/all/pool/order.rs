//! Work of a new owner comes after work of the former one, and no memory is freed under work.

use crate::pool::*;

/// claim 2
#[test]
fn on_another_stream_the_next_owner_comes_after_the_last() {
    on_each(WAITLESS, |it| {
        let (first, second) = (&it.stream, &it.device.create_stream().unwrap());
        let pool = it.pool();
        drop(pool.zeroed(100).unwrap());
        it.device.synchronize().unwrap();
        let waits = || (it.calls("cudaEventRecord"), it.calls("cudaStreamWaitEvent"));

        let paused = it.sim().pause();
        let place = it.leave_in_use(&pool, first);
        if !it.is(Driver) {
            it.sim().clear_trace();
            let mut next = pool.uninit(100).unwrap();
            let trace = it.sim().trace();
            assert!(trace.is_empty(), "allocating records and waits for nothing");
            next.fill_on(0, first);
            assert_eq!(waits(), (0, 0), "one stream needs no events");
            drop(next);
        }
        let mut next = pool.uninit(100).unwrap();
        next.fill_on(0, second);
        if !it.is(Driver) {
            assert_eq!((waits(), address(&next)), ((1, 1), place));
        }
        it.add(100, 7, &mut next, first);
        for blocking in ["cudaStreamSynchronize", "cudaEventSynchronize", "cudaFree"] {
            assert_eq!(it.calls(blocking), 0, "a drop waited: {blocking}");
        }
        drop(paused);
        assert_eq!(next.to_vec().unwrap(), [7; 100]);
    });
}

/// claim 3
#[test]
fn trim_gives_back_what_nobody_uses() {
    on_each(ALL, |it| {
        let frees = match it.kind {
            // It frees blocks when they are dropped; none is freed in another way.
            Driver => "cudaFree",
            _ => it.names().1,
        };
        let pool = it.pool();
        let kept = pool.copy_of(&[9; 100]);
        let mut in_use = pool.zeroed(2 * MIB).unwrap();
        let idle = pool.uninit(4 * MIB).unwrap();
        let mut target = DeviceBuffer::zeroed(&it.device, 2 * MIB).unwrap();
        it.device.synchronize().unwrap();
        let before = pool.stats();
        assert_eq!(pool.trim(), 0, "each has a live buffer");
        drop(idle);
        it.device.synchronize().unwrap();
        let paused = it.sim().pause();
        it.add(100, 1, &mut in_use, &it.stream);
        copy(&in_use, &mut target, &it.stream);
        drop(in_use);
        // A slab in use leaves the pool, and is freed later; the driver's pool keeps it.
        let at_once = if it.is(Driver) { 16 * MIB } else { 24 * MIB };
        assert_eq!(pool.trim(), at_once);
        assert_eq!(pool.stats().reserved_bytes, before.reserved_bytes - at_once);
        assert_eq!(it.calls(frees), 0, "work uses it, and no call waits");
        drop(paused);
        it.device.runtime().reclaim().unwrap();
        it.device.synchronize().unwrap();
        assert_eq!(pool.trim(), 24 * MIB - at_once);
        assert_eq!(kept.to_vec().unwrap(), [9; 100]);
        assert_eq!(target.to_vec().unwrap()[99..101], [1, 0]);
        if !it.is(Driver) {
            assert_eq!((before.slabs, before.reserved_bytes), (3, 32 * MIB));
            assert_eq!((pool.stats().slabs, it.calls(frees)), (1, 2));
            drop(kept);
            it.device.synchronize().unwrap();
            assert_eq!((pool.trim(), it.calls(frees)), (8 * MIB, 3));
        }
        assert_eq!(pool.trim(), 0);
    });
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
