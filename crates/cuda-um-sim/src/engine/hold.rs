//! Ends a hold: lets the held streams go on one by one, in an order that tests choose.

use std::sync::Arc;

use super::core::Core;
use super::stream::{Hold, Progress, Stream};

impl Core {
    /// A call of this thread is about to wait for streams.
    pub(super) fn end_hold_to_wait(&self) {
        if let Some(hold) = self.context.gate.current_hold() {
            hold.end_by_this_thread();
            self.end_hold(&hold);
        }
    }

    /// Lets the streams of a hold go on: each does all that it can before the next one does anything.
    pub(crate) fn end_hold(&self, hold: &Arc<Hold>) {
        if hold.set_over() {
            return;
        }
        let mut streams: Vec<Arc<Stream>> = {
            let state = self.state.lock();
            let busy = |stream: &&Arc<Stream>| stream.progress() != Progress::Idle;
            state.streams.iter().filter(busy).cloned().collect()
        };
        streams.sort_unstable_by_key(|stream| scramble(stream.handle as u64 ^ hold.order()));
        let gate = &self.context.gate;
        for stream in streams {
            if !gate.let_go(hold, stream.handle) {
                return;
            }
            while stream.progress() == Progress::Working && !gate.is_paused() {
                std::thread::yield_now();
            }
        }
        gate.end(hold);
    }
}

/// Maps numbers to numbers in an order unlike their own (splitmix64).
fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
