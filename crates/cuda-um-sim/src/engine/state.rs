//! Everything in a simulator that changes, behind one lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::contexts::Contexts;
use super::device::Devices;
use super::graph::Graphs;
use super::handle::Handles;
use super::image::Linked;
use super::machine::Machine;
use super::managed::{ManagedMemory, UvmDriver};
use super::memory::MemoryMap;
use super::misuse_log::MisuseLog;
use super::module::Modules;
use super::pool::{Pool, Pools};
use super::records::Records;
use super::registered::Registered;
use super::stream::{Completion, Context, Events, Stream, Streams};
use crate::call_log::CallLog;
use crate::inject::Failures;

/// Everything in a simulator that changes. A method of a part changes only that part; a method of `State` is a call that changes several.
pub(crate) struct State {
    pub(crate) machine: Arc<Machine>,
    pub(crate) handles: Handles,
    pub(crate) context: Arc<Context>,
    /// The host's virtual time.
    pub(crate) now: Duration,
    pub(crate) memory: MemoryMap,
    pub(crate) managed: ManagedMemory,
    pub(crate) contexts: Contexts,
    pub(crate) devices: Devices,
    pub(crate) pools: Pools,
    pub(crate) streams: Streams,
    pub(crate) events: Events,
    pub(crate) graphs: Graphs,
    pub(crate) modules: Modules,
    pub(crate) registered: Registered,
    /// Barriers of grids, by device and stream.
    pub(super) workspaces: HashMap<(usize, usize), usize>,
    pub(crate) links: HashMap<usize, Linked>,
    pub(crate) records: Records,
    pub(crate) calls: CallLog,
    pub(crate) failures: Failures,
    pub(crate) misuse: MisuseLog,
}

impl State {
    pub(crate) fn new(machine: Arc<Machine>, context: Arc<Context>, devices: usize) -> State {
        let (handles, misuse) = (Handles::new(), MisuseLog::default());
        let mut state = State {
            now: Duration::ZERO,
            memory: MemoryMap::new(machine.clone(), handles.clone(), misuse.clone()),
            managed: ManagedMemory::new(machine.profile.pageable_memory_access),
            contexts: Contexts::new(handles.clone(), devices),
            devices: Devices::new(machine.clone(), devices),
            pools: Pools::new(handles.clone()),
            streams: Streams::new(machine.clone(), handles.clone(), context.clone()),
            events: Events::new(handles.clone()),
            graphs: Graphs::new(handles.clone()),
            registered: Registered::new(handles.clone()),
            workspaces: HashMap::new(),
            links: HashMap::new(),
            modules: Modules::new(machine.clone(), handles.clone(), misuse.clone()),
            records: Records::default(),
            calls: CallLog::default(),
            failures: Failures::default(),
            machine,
            handles,
            context,
            misuse,
        };
        for ordinal in 0..devices {
            let pool = state.pools.add(Pool::default_of(ordinal));
            state.devices[ordinal].default_pool = pool;
            state.devices[ordinal].pool = pool;
        }
        state
    }

    /// The driver of managed memory, with the parts of the state that it changes.
    pub(crate) fn uvm(&mut self) -> UvmDriver<'_> {
        UvmDriver {
            machine: &self.machine,
            managed: &mut self.managed,
            devices: &mut self.devices,
            records: &mut self.records,
        }
    }

    /// Adds work to a stream.
    pub(crate) fn enqueue(
        &mut self,
        stream: &Arc<Stream>,
        work: impl FnOnce(Duration) -> Duration + Send + 'static,
    ) -> Arc<Completion> {
        self.streams
            .enqueue(self.now, stream, Vec::new(), Box::new(work))
    }

    /// The host has seen this work complete at `at`: its virtual time is at least that.
    pub(crate) fn observe(&mut self, completion: &Completion, at: Duration) {
        self.now = self.now.max(at);
        self.streams.observe(completion);
    }
}
