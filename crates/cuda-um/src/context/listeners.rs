//! The listeners to operations, in one word: an observer (the profiler), and the sessions of a planner (automatic prefetch).

use crate::driver::location::Location;
use crate::fork::Origin;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of listener: its part of [`LISTENERS`].
#[derive(Clone, Copy)]
pub(crate) enum Listener {
    Observer,
    Planner,
}

impl Listener {
    const fn mask(self) -> u64 {
        match self {
            Self::Observer => 1,
            Self::Planner => ALL & !1,
        }
    }
}

/// The bits of all listeners.
const ALL: u64 = u32::MAX as u64;

/// An operation of the library.
#[derive(Clone, Copy)]
pub(crate) enum What<'a> {
    Launch(&'a str),
    Prefetch {
        to: Location,
        /// True if all pages were at the destination and CUDA was not called.
        elided: bool,
    },
    /// A prefetch without the contents.
    Discard {
        to: Location,
    },
    /// CUDA's name of the advice, without its prefix.
    Advise(&'static str, Option<Location>),
    Copy,
    Fill,
}

/// [`Origin::number`] + 1 of the process in which listeners are (32 bits), the number of planners' sessions (31 bits), and a bit for the
/// observer; 0 if there is none. A child made by `fork` has no listener.
static LISTENERS: AtomicU64 = AtomicU64::new(0);

/// Counts one more session of the planner, or one less.
pub(crate) fn count_planner(begins: bool) {
    change(|bits| match begins {
        true => bits + 2,
        false => bits.saturating_sub(2),
    });
}

pub(super) fn change(change: impl Fn(u64) -> u64) {
    let next = |word: u64| {
        let process = this_process();
        let bits = match word >> 32 == process {
            true => word & ALL,
            false => 0,
        };
        Some(match change(bits) {
            0 => 0,
            bits => process << 32 | bits,
        })
    };
    let _ = LISTENERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
}

fn this_process() -> u64 {
    u64::from(Origin::here().number()) + 1
}

/// Returns true if the listener is in the word, and in this process.
#[cold]
pub(super) fn has(word: u64, listener: Listener) -> bool {
    word & listener.mask() != 0 && word >> 32 == this_process()
}

/// The word of the listeners; 0 if there are none.
#[inline]
pub(super) fn word() -> u64 {
    LISTENERS.load(Ordering::Acquire)
}

/// Returns true if the listener is there.
#[inline]
pub(crate) fn listens(listener: Listener) -> bool {
    match word() {
        0 => false,
        word => has(word, listener),
    }
}
