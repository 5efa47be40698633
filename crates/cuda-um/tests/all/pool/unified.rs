//! Pools of managed memory: host access, advice, devices without concurrent managed access.

use crate::pool::any::Buffer;
use crate::pool::{KIB, Unified, on_each, on_each_here, on_each_with};
use cuda_um::{Advice, ErrorKind, Location, Result, UnifiedBuffer};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_sys::cudaError;
use cuda_um_testkit::is_concurrent;
use std::time::Duration;

const LEN: usize = 16 * KIB;

fn unified(buffer: Result<Buffer>) -> UnifiedBuffer<u32> {
    match buffer.unwrap() {
        Buffer::Unified(buffer) => buffer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_host_comes_after_the_last_owner() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        on_each_with(
            &[Unified],
            |builder| builder.gpu(gpu),
            |it| {
                let pool = it.pool();
                drop(pool.zeroed(100).unwrap());
                it.device.synchronize().unwrap();
                let paused = it.sim().pause();
                let address = it.leave_in_use(&pool, &it.stream);
                let mut next = unified(pool.uninit(100));
                assert_eq!(next.as_ptr().addr(), address);
                let busy = next.try_host_mut().map(drop).unwrap_err();
                assert_eq!(busy.kind(), ErrorKind::Busy);
                let busy = next.try_host().map(drop).unwrap_err();
                assert_eq!(busy.kind(), ErrorKind::Busy);
                let resume = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    drop(paused);
                });
                let found = next.host_mut().unwrap()[99];
                assert_eq!(found, 1, "the former owner's kernel is done");
                resume.join().unwrap();
            },
        );
    }
}

#[test]
fn without_concurrent_access_everything_works() {
    on_each_with(
        &[Unified],
        |builder| builder.gpu(Gpu::NoConcurrentAccess),
        |it| {
            let pool = it.pool();
            for round in 1..4 {
                let mut buffer = pool.copy_of(&[round; 100]).unwrap();
                it.add(100, 1, &mut buffer, &it.stream);
                let mut buffer = unified(Ok(buffer));
                let guard = buffer.host_mut().unwrap();
                assert_eq!(*guard, [round + 1; 100]);
                let mut beside = unified(Ok(pool.zeroed(100).unwrap()));
                assert_eq!(*beside.host_mut().unwrap(), [0; 100]);
            }
        },
    );
}

fn assert_unadvised(buffer: &UnifiedBuffer<u32>) {
    let found = buffer.range_attributes().unwrap();
    let is_advised = found.read_mostly || found.preferred_location.is_some();
    assert!(!is_advised && found.accessed_by.is_empty(), "{found:?}");
}

#[test]
fn advice_ends_with_its_owner() {
    on_each_here(&[Unified], |it| {
        if !is_concurrent(&it.device) {
            return;
        }
        let (pool, here) = (it.pool(), Location::from(&it.device));
        let bystander = unified(pool.zeroed(LEN));
        bystander.advise(Advice::SetReadMostly).unwrap();
        for _ in 0..2 {
            let first = unified(pool.zeroed(LEN));
            let address = first.as_ptr();
            assert_unadvised(&first);
            first
                .view(..100)
                .unwrap()
                .advise(Advice::SetReadMostly)
                .unwrap();
            for advice in [
                Advice::SetReadMostly,
                Advice::SetPreferredLocation(Location::Host),
                Advice::SetPreferredLocation(here),
                Advice::SetAccessedBy(here),
                Advice::SetAccessedBy(Location::Host),
                Advice::UnsetAccessedBy(here),
            ] {
                first.advise(advice).unwrap();
            }
            drop(first);
            let second = unified(pool.uninit(LEN));
            assert_unadvised(&second);
            assert_eq!(second.as_ptr(), address);
        }
        assert!(bystander.range_attributes().unwrap().read_mostly);
    });
}

/// To undo advice may take milliseconds: the next owner pays.
#[test]
fn a_drop_of_advised_memory_calls_nobody() {
    on_each(&[Unified], |it| {
        let pool = it.pool();
        let advised = unified(pool.zeroed(LEN));
        advised.advise(Advice::SetReadMostly).unwrap();
        it.device.synchronize().unwrap();
        it.sim().clear_trace();
        drop(advised);
        assert!(it.sim().trace().is_empty(), "{:?}", it.sim().trace());
        assert_unadvised(&unified(pool.uninit(LEN)));
    });
}

#[test]
fn advice_that_cannot_be_undone_is_not_passed_on() {
    on_each(&[Unified], |it| {
        let pool = it.pool();
        let refuse = || {
            for name in ["cudaMemAdvise", "cudaMemAdvise_v2"] {
                let refused = Fail::call(name).with(cudaError::cudaErrorInvalidValue);
                it.sim().fail(refused);
            }
        };
        let first = unified(pool.zeroed(LEN));
        first.advise(Advice::SetReadMostly).unwrap();
        drop(first);
        refuse();
        assert!(pool.uninit(LEN).is_err());
        assert_eq!(pool.stats().live_buffers, 0);
        let first = unified(pool.uninit(LEN));
        first.advise(Advice::SetReadMostly).unwrap();
        refuse();
        assert!(first.advise(Advice::UnsetReadMostly).is_err());
        drop(first);
        assert_unadvised(&unified(pool.uninit(LEN)));
    });
}
