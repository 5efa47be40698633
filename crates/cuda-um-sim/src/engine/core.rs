//! One simulator: its machine, its state, its streams' threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use super::foreign::contain;
use super::gate::Gate;
use super::state::{Machine, State};
use super::status::Code;
use super::stream::{Completion, Stream};
use super::thread::this_call;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One simulator.
pub(crate) struct Core {
    /// Apart from every other simulator of this process.
    pub(crate) id: u64,
    slot: AtomicUsize,
    /// The process that has its streams' threads and its memory.
    process: u32,
    pub(crate) machine: Machine,
    pub(crate) state: Mutex<State>,
    pub(super) gate: Mutex<Gate>,
    pub(super) resumed: Condvar,
    /// Pieces of work that devices run now.
    running: Mutex<usize>,
    came_to_rest: Condvar,
    /// Is told of every call that waits.
    on_wait: Mutex<Option<OnWait>>,
}

/// What is told the name of a call that waits.
pub(crate) type OnWait = Arc<dyn Fn(&'static str) + Send + Sync>;

impl Core {
    pub(crate) fn new(machine: Machine, devices: usize) -> Arc<Core> {
        let state = State::new(&machine, devices);
        Arc::new(Core {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            slot: AtomicUsize::new(usize::MAX),
            process: std::process::id(),
            machine,
            state: Mutex::new(state),
            gate: Mutex::default(),
            resumed: Condvar::new(),
            running: Mutex::default(),
            came_to_rest: Condvar::new(),
            on_wait: Mutex::default(),
        })
    }

    /// Whether this is a child made by `fork`, which has neither the streams' threads nor the memory.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    /// What is told of waits from now on.
    pub(crate) fn set_on_wait(&self, on_wait: Option<OnWait>) {
        let earlier = std::mem::replace(&mut *self.on_wait.lock(), on_wait);
        // Its drop is the program's code: no lock is held.
        drop(earlier);
    }

    /// Waits for work, as a call that may block, and moves the host's clock to its end.
    pub(crate) fn wait(&self, completions: &[Arc<Completion>]) -> Result<(), Code> {
        let on_wait = self.on_wait.lock().clone();
        if let Some(on_wait) = on_wait {
            contain(|| on_wait(this_call()));
        }
        self.observe(completions)
    }

    /// The same, for work that has ended if it is a query that asks.
    pub(crate) fn observe(&self, completions: &[Arc<Completion>]) -> Result<(), Code> {
        if completions
            .iter()
            .any(|completion| completion.get().is_none())
        {
            self.end_hold_to_wait();
        }
        for completion in completions {
            let at = completion.wait();
            self.state.lock().observe(completion, at);
        }
        self.state.lock().poison.map_or(Ok(()), Err)
    }

    /// Waits for everything that was enqueued on a device, or on all.
    pub(crate) fn wait_device(&self, ordinal: Option<usize>) -> Result<(), Code> {
        let last: Vec<_> = {
            let state = self.state.lock();
            state
                .all_streams()
                .filter(|stream| ordinal.is_none_or(|ordinal| stream.device == ordinal))
                .filter_map(|stream| stream.last())
                .collect()
        };
        self.wait(&last)
    }

    /// The slot whose entry points lead here.
    pub(crate) fn slot(&self) -> usize {
        self.slot.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    pub(crate) fn pause(&self) {
        self.gate.lock().paused += 1;
    }

    pub(crate) fn resume(&self) {
        self.gate.lock().paused -= 1;
        self.resumed.notify_all();
    }

    /// Blocks a stream's thread while the simulator is paused, or the stream is held.
    pub(crate) fn pass_gate(&self, stream: usize) {
        let mut gate = self.gate.lock();
        while gate.is_closed_to(stream) {
            self.resumed.wait(&mut gate);
        }
    }

    /// Runs a piece of work, unless the context is poisoned.
    pub(super) fn work<R>(&self, run: impl FnOnce() -> R) -> Option<R> {
        // Before the look at the poison: whoever poisons looks in the other order, so one of the two sees the other.
        *self.running.lock() += 1;
        let poisoned = self.state.lock().poison.is_some();
        let result = if poisoned { None } else { contain(run) };
        if !poisoned && result.is_none() {
            // Not a reference, whose panic has ended already: the simulator itself. What waits for the work must not wait for ever.
            self.state.lock().poison(Code::UNKNOWN);
        }
        self.work_ended();
        result
    }

    /// Inside [`work`](Self::work): runs what is the host's, not a device's.
    pub(crate) fn leave_to_host(&self, run: impl FnOnce()) {
        self.work_ended();
        run();
        *self.running.lock() += 1;
    }

    fn work_ended(&self) {
        let mut running = self.running.lock();
        *running -= 1;
        if *running == 0 {
            self.came_to_rest.notify_all();
        }
    }

    /// Waits until no work runs. In a poisoned context none begins any more, and what runs has ended before the host is told: whoever
    /// was told may free memory that it used.
    pub(crate) fn rest(&self) {
        let mut running = self.running.lock();
        while *running > 0 {
            self.came_to_rest.wait(&mut running);
        }
    }

    /// Lets every stream finish and ends its thread.
    pub(crate) fn shut_down(&self) {
        let streams: Vec<Arc<Stream>> = self.state.lock().all_streams().cloned().collect();
        for stream in &streams {
            stream.close();
        }
        for stream in &streams {
            stream.join();
        }
        let mut state = self.state.lock();
        state.streams.clear();
        state.legacy.clear();
        state.per_thread.clear();
        state.retired.clear();
        state.events.clear();
    }
}
