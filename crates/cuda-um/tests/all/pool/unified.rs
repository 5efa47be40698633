//! Pools of managed memory: advice ends with its owner.

use crate::pool::*;
use cuda_um::{Advice, Location, UnifiedBuffer};
use cuda_um_sim::Fail;
use cuda_um_sys::cudaError;
use cuda_um_testkit::is_concurrent;

const LEN: usize = 16 * KIB;

fn unified(buffer: Result<AnyBuffer>) -> UnifiedBuffer<u32> {
    match buffer.unwrap() {
        AnyBuffer::Unified(buffer) => buffer,
        other => panic!("{other:?}"),
    }
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
            let part = first.view(..100).unwrap();
            part.advise(Advice::SetReadMostly).unwrap();
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
fn a_drop_of_advised_memory_calls_nobody_and_failed_advice_is_not_passed_on() {
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
        it.device.synchronize().unwrap();
        it.sim().clear_trace();
        drop(first);
        assert!(it.sim().trace().is_empty(), "{:?}", it.sim().trace());
        refuse();
        assert!(pool.uninit(LEN).is_err());
        assert_eq!(pool.stats().live_buffers, 0);
        let first = unified(pool.uninit(LEN));
        assert_unadvised(&first);
        first.advise(Advice::SetReadMostly).unwrap();
        refuse();
        assert!(first.advise(Advice::UnsetReadMostly).is_err());
        drop(first);
        assert_unadvised(&unified(pool.uninit(LEN)));
    });
}
