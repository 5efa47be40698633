//! The listeners to operations, in one word: an observer (the profiler), and the sessions of a planner (automatic prefetch).

use crate::driver::location::Location;
use crate::fork;
use std::sync::atomic::{AtomicU32, Ordering};

/// A kind of listener: its part of [`LISTENERS`].
#[derive(Clone, Copy)]
pub(crate) enum Listener {
    Observer,
    Planner,
}

impl Listener {
    const fn mask(self) -> u32 {
        match self {
            Self::Observer => 1,
            Self::Planner => !1,
        }
    }
}

/// An operation of the library.
#[derive(Clone, Copy)]
pub(crate) enum What<'a> {
    Launch(&'a str),
    Prefetch {
        to: Location,
        /// True if all pages were at the destination and CUDA was not called.
        elided: bool,
    },
    /// CUDA's name of the advice, without its prefix.
    Advise(&'static str, Option<Location>),
    Copy,
    Fill,
}

/// The number of planners' sessions (31 bits), and a bit for the observer; 0 if there is none.
static LISTENERS: AtomicU32 = AtomicU32::new(0);

/// Counts one more session of the planner, or one less.
pub(crate) fn count_planner(begins: bool) {
    match begins {
        true => LISTENERS.fetch_add(2, Ordering::AcqRel),
        false => LISTENERS.fetch_sub(2, Ordering::AcqRel),
    };
}

pub(super) fn set_observer(is_there: bool) {
    match is_there {
        true => LISTENERS.fetch_or(1, Ordering::AcqRel),
        false => LISTENERS.fetch_and(!1, Ordering::AcqRel),
    };
}

/// Returns true if the listener is in the word, and in this process: those that a child made by `fork` inherits are the parent's.
#[cold]
pub(super) fn has(word: u32, listener: Listener) -> bool {
    word & listener.mask() != 0 && !fork::is_inherited()
}

/// The word of the listeners; 0 if there are none.
#[inline]
pub(super) fn word() -> u32 {
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
