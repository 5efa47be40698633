//! Peer access: it is there while a thread counts on it, and gone when none does.

use crate::context::device::Device;
use crate::models::checker::preempted;
use crate::models::engine::engine;
use crate::models::machine::device_of;
use crate::sync::thread;
use cuda_um_cost::PeerLink;

const PAIR: (u32, u32) = (0, 1);

/// Holds the access, uses it, and ends it as `PeerAccess::close` does. The work may go on then.
fn hold(device: &Device) {
    let (state, peers) = (device.state(), &device.state().driver.peers);
    let link = PeerLink::NvLink;
    peers.lock().enable(device.api(), PAIR, link).unwrap();
    assert!(peers.lock().is_held(PAIR) && engine(|cuda| cuda.has_peer_access));
    engine(|cuda| cuda.has_peer_work = true);
    peers.lock().release(&[PAIR]);
    state.end_unused_peer_access().unwrap();
}

#[test]
fn access_is_there_while_a_thread_holds_it_and_gone_at_the_end() {
    preempted(3, || {
        let device = device_of(0);
        let other = device.clone();
        let other = thread::spawn(move || hold(&other));
        hold(&device);
        other.join().unwrap();
        assert!(!engine(|cuda| cuda.has_peer_access));
    });
}
