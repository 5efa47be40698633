//! Checks the simulator's own report at the end of every test.

use crate::watchdog::{self, Watchdog};
use cuda_um_sim::{Leak, Misuse, Sim};
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of the wait at the end: only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longer than any test takes, even on a busy machine. A longer test must report progress.
const HANGS: Duration = Duration::from_secs(300);

/// Devices of a simulator.
const MOST_DEVICES: u32 = 8;

/// A simulator that is checked at the end of its test, when it is dropped: nothing may be leaked or misused.
///
/// Declare it before all objects that use it, so that it is dropped after them: `let (sim, device, stream) = simulated(…)`.
/// With `_` it would be dropped at once, and report the device as a leak.
#[must_use = "dropped at once, it finds everything left"]
pub struct Checked {
    sim: Sim,
    on_purpose: Mutex<OnPurpose>,
    watchdog: Watchdog,
}

/// The leaks and misuse that a test declares.
#[derive(Default)]
struct OnPurpose {
    breaks: Option<&'static str>,
    left: Vec<Declared<Leak>>,
    misused: Vec<Declared<Misuse>>,
}

/// A number of leaks or misuses, and the reason.
struct Declared<T> {
    count: usize,
    why: &'static str,
    is_it: fn(&T) -> bool,
}

impl Checked {
    pub fn new(sim: Sim) -> Self {
        let its = sim.clone();
        Self {
            sim,
            on_purpose: Mutex::default(),
            watchdog: watchdog::watch_for(HANGS, move || last_calls(&its)),
        }
    }

    /// Reports progress of the test, so that it does not count as hanging.
    pub fn progress(&self) {
        self.watchdog.progress();
    }

    /// Declares that the test leaves exactly `count` of these.
    pub fn leaves(&self, count: usize, why: &'static str, is_it: fn(&Leak) -> bool) {
        let declared = Declared { count, why, is_it };
        self.on_purpose.lock().unwrap().left.push(declared);
    }

    /// Declares that the test causes this misuse exactly `count` times.
    pub fn misuses(&self, count: usize, why: &'static str, is_it: fn(&Misuse) -> bool) {
        let declared = Declared { count, why, is_it };
        self.on_purpose.lock().unwrap().misused.push(declared);
    }

    /// Declares that the test breaks the context or loses a device: the library then frees nothing there, and any leak is allowed.
    pub fn breaks(&self, why: &'static str) {
        self.on_purpose.lock().unwrap().breaks = Some(why);
    }

    /// Compares the leaks and misuses with the declarations.
    fn complaint(&self) -> Option<String> {
        let on_purpose = self.on_purpose.lock().unwrap();
        let lost = || (0..MOST_DEVICES).find_map(|device| self.sim.loss_of(device));
        match (on_purpose.breaks, self.sim.poison().or_else(lost)) {
            (Some(_), Some(_)) => None,
            (Some(why), None) => Some(format!("all devices work, though {why}")),
            (None, _) => compare("left", &self.sim.leaks(), &on_purpose.left),
        }
        .or_else(|| compare("misused", &self.sim.misuse(), &on_purpose.misused))
    }
}

impl Deref for Checked {
    type Target = Sim;

    fn deref(&self) -> &Sim {
        &self.sim
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let start = Instant::now();
        // A stream frees in its order.
        while self.complaint().is_some() && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        if let Some(complaint) = self.complaint() {
            panic!("at the end of the test: {complaint}");
        }
    }
}

/// The last calls of the simulator.
fn last_calls(sim: &Sim) -> String {
    let trace = sim.trace();
    let last = &trace[trace.len().saturating_sub(20)..];
    let names: Vec<_> = last.iter().map(|call| call.name).collect();
    format!(
        "    the last of {} calls: {}",
        trace.len(),
        names.join(", ")
    )
}

fn compare<T: Debug>(what: &str, found: &[T], declared: &[Declared<T>]) -> Option<String> {
    let undeclared = |one: &&T| !declared.iter().any(|declared| (declared.is_it)(one));
    let more: Vec<_> = found.iter().filter(undeclared).collect();
    if !more.is_empty() {
        return Some(format!("{what}: {more:?}"));
    }
    declared.iter().find_map(|Declared { count, why, is_it }| {
        let of_it = found.iter().filter(|one| is_it(one)).count();
        (of_it != *count).then(|| format!("{what}: {of_it}, not {count}, though {why}"))
    })
}
