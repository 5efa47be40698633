//! One simulator: its machine, its context and its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cuda_um_sys::locks::Mutex;

use super::foreign::contain;
use super::machine::Machine;
use super::state::State;
use super::status::Code;
use super::stream::{Completion, Context, Stream};
use super::thread::this_call;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One simulator.
pub(crate) struct Core {
    /// A number that no other simulator of this process has.
    pub(crate) id: u64,
    slot: AtomicUsize,
    /// The process that has its streams' threads and its memory.
    process: u32,
    pub(crate) machine: Arc<Machine>,
    pub(crate) context: Arc<Context>,
    pub(crate) state: Mutex<State>,
    /// Called by every call that waits.
    on_wait: Mutex<Option<OnWait>>,
}

/// A function of the program that gets the name of a call that waits.
pub(crate) type OnWait = Arc<dyn Fn(&'static str) + Send + Sync>;

impl Core {
    pub(crate) fn new(machine: Machine, devices: usize) -> Arc<Core> {
        let (machine, context) = (Arc::new(machine), Arc::<Context>::default());
        let state = State::new(machine.clone(), context.clone(), devices);
        Arc::new(Core {
            // Relaxed: the numbers need only differ.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            slot: AtomicUsize::new(usize::MAX),
            process: std::process::id(),
            machine,
            context,
            state: Mutex::new(state),
            on_wait: Mutex::default(),
        })
    }

    /// Whether this process is a child made by `fork`, which has neither the streams' threads nor the memory.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    /// Sets the function that every call calls before it waits.
    pub(crate) fn set_on_wait(&self, on_wait: Option<OnWait>) {
        let earlier = std::mem::replace(&mut *self.on_wait.lock(), on_wait);
        // Its drop is the program's code: no lock is held.
        drop(earlier);
    }

    /// Waits for work, in a call that may block, and moves the host's clock to its end.
    pub(crate) fn wait(&self, completions: &[Arc<Completion>]) -> Result<(), Code> {
        let on_wait = self.on_wait.lock().clone();
        if let Some(on_wait) = on_wait {
            contain(|| on_wait(this_call()));
        }
        self.observe(completions)
    }

    /// As [`wait`](Self::wait), without a call of the program's function: a query observes work that has ended.
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
        self.context.poison().map_or(Ok(()), Err)
    }

    /// Waits for all work that was enqueued on a device, or on all devices.
    pub(crate) fn wait_device(&self, ordinal: Option<usize>) -> Result<(), Code> {
        let last: Vec<_> = {
            let state = self.state.lock();
            let streams = state.streams.iter();
            streams
                .filter(|stream| ordinal.is_none_or(|ordinal| stream.device == ordinal))
                .filter_map(|stream| stream.last())
                .collect()
        };
        self.wait(&last)
    }

    /// The slot whose entry points lead here.
    pub(crate) fn slot(&self) -> usize {
        // Relaxed: set once, before the table is made through which other threads call.
        self.slot.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// Lets every stream finish and ends its thread.
    pub(crate) fn shut_down(&self) {
        let streams: Vec<Arc<Stream>> = {
            let state = self.state.lock();
            state.streams.iter().cloned().collect()
        };
        for stream in &streams {
            stream.close();
        }
        for stream in &streams {
            stream.join();
        }
        let mut state = self.state.lock();
        state.streams.clear();
        state.events.clear();
        state.graphs.clear();
    }
}
