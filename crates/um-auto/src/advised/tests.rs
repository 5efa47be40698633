use super::*;
use cuda_um::observe::{Observer, Op, Told, What, observe};
use cuda_um::{Runtime, UnifiedBuffer};
use cuda_um_sim::{Gpu, Sim};
use std::sync::Arc;

/// Numbers that no session of another test has.
const SESSIONS: [u64; 3] = [u64::MAX - 1, u64::MAX - 2, u64::MAX - 3];

/// Advises memory of which the host gets a guard.
struct Advises;

impl Observer for Advises {
    fn before(&self, op: &Op<'_>) {
        if let (What::Host { .. }, [part]) = (op.what, op.parts) {
            for session in SESSIONS {
                assert!(set(session, part, Kept::Both, Location::from(op.device)).unwrap());
            }
            unset(SESSIONS[1], part).unwrap();
        }
    }

    fn after(&self, _: &Told<'_>) {}
}

/// The sessions of two threads advise one buffer. The advice of both ends with it, because its memory is then that of others.
#[test]
fn sessions_have_their_own_advice_which_ends_with_the_buffer() {
    let sim = Sim::builder().gpu(Gpu::H200).build().unwrap();
    let device = Runtime::from_table(sim.table()).unwrap().device(0).unwrap();
    let buffer = UnifiedBuffer::<u8>::zeroed(&device, 4 << 20).unwrap();
    let _observing = observe(Arc::new(Advises));
    drop(buffer.host().unwrap());
    let id = buffer.id();
    let sessions = || {
        let locked = List::lock();
        let of_buffer = locked.list.iter().filter(|advised| advised.buffer == id);
        of_buffer.map(|advised| advised.session).collect::<Vec<_>>()
    };
    assert_eq!(sessions(), [SESSIONS[0], SESSIONS[2]]);
    remove(id);
    assert!(sessions().is_empty());
}
