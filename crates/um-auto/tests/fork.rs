//! A child made by `fork` prefetches nothing, and leaves its parent's scope alone.
#![cfg(unix)]

use cuda_um::{ErrorKind, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{child::in_child, simulated};
use um_auto::AutoPrefetch;

#[test]
fn a_scope() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut auto = Some(AutoPrefetch::start(&device).unwrap());
    let mut guard = Some(buffer.host().unwrap());
    let in_child = in_child(|| {
        let again = AutoPrefetch::start(&device).map(drop).unwrap_err();
        drop(guard.take());
        drop(auto.take());
        i32::from(again.kind() != ErrorKind::Forked)
    });
    assert_eq!(in_child, 0);
    drop(guard);
    buffer.fill_on(1, &stream).unwrap();
    assert_eq!(auto.unwrap().stop().events, 2);
}
