//! Holding streams until somebody waits, and then letting them go one by one, in an order that tests choose.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::core::Core;
use super::gate::Hold;
use super::stream::{Activity, Stream};

impl Core {
    /// Holds all streams; an earlier hold ends.
    pub(crate) fn hold(&self, order: u64) -> Arc<Hold> {
        let hold = Arc::new(Hold {
            order,
            over: AtomicBool::new(false),
            ended_by: Mutex::new(None),
        });
        let mut gate = self.gate.lock();
        if let Some((earlier, _)) = gate.hold.replace((hold.clone(), HashSet::new())) {
            earlier.over.store(true, Ordering::Release);
        }
        hold
    }

    /// A call of this thread is about to wait for streams.
    pub(super) fn end_hold_to_wait(&self) {
        let hold = self.gate.lock().hold.as_ref().map(|(hold, _)| hold.clone());
        if let Some(hold) = hold {
            hold.ended_by
                .lock()
                .get_or_insert_with(|| std::thread::current().id());
            self.end_hold(&hold);
        }
    }

    /// Lets the streams of a hold go: each does what it can before the next one does anything.
    pub(crate) fn end_hold(&self, hold: &Arc<Hold>) {
        if hold.over.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut streams: Vec<Arc<Stream>> = {
            let state = self.state.lock();
            let busy = |stream: &&Arc<Stream>| stream.activity() != Activity::Idle;
            state.all_streams().filter(busy).cloned().collect()
        };
        streams.sort_unstable_by_key(|stream| scramble(stream.handle as u64 ^ hold.order));
        for stream in streams {
            {
                let mut gate = self.gate.lock();
                match &mut gate.hold {
                    Some((current, let_go)) if Arc::ptr_eq(current, hold) => {
                        let_go.insert(stream.handle)
                    }
                    // Another hold has taken its place.
                    _ => return,
                };
            }
            self.resumed.notify_all();
            while stream.activity() == Activity::Working && self.gate.lock().paused == 0 {
                std::thread::yield_now();
            }
        }
        let mut gate = self.gate.lock();
        if gate
            .hold
            .as_ref()
            .is_some_and(|(current, _)| Arc::ptr_eq(current, hold))
        {
            gate.hold = None;
        }
        drop(gate);
        self.resumed.notify_all();
    }
}

/// An order that has nothing to do with the numbers' own (splitmix64).
fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
