//! Everything that changes, behind one lock; and the machine, which does not change.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::activity::Activity;
use super::address_space::AddressSpace;
use super::allocation::Allocation;
use super::device_state::DeviceState;
use super::free_list::FreeList;
use super::module::{Function, Module};
use super::pool_state::Pool;
use super::recorded::Event;
use super::registered::Registered;
use super::status::Code;
use super::stream::{Completion, Launched, Stream};
use crate::call_log::CallRecord;
use crate::counters::Counters;
use crate::inject::Fail;
use crate::misuse::Misuse;
use crate::preset::{CudaVersion, Cupti, Profile};
use cuda_um_cost::CostModel;

/// The simulated machine.
pub(crate) struct Machine {
    pub(crate) space: AddressSpace,
    pub(crate) profile: Profile,
    pub(crate) cost: CostModel,
    pub(crate) cuda: CudaVersion,
    /// Devices fault on managed memory, so host and kernels may use it at the same time.
    pub(crate) concurrent: bool,
    /// Host and devices reach each other's memory without migrating it.
    pub(crate) coherent: bool,
    /// End the process when the host touches managed memory under a kernel, as hardware does.
    pub(crate) crash_on_misuse: bool,
    /// What CUPTI it has.
    pub(crate) cupti: Cupti,
    /// CPU references of this simulator alone.
    pub(crate) references: HashMap<String, crate::Twin>,
}

/// A freed allocation, remembered for reports.
#[derive(Debug)]
pub(crate) struct Freed {
    pub(crate) range: Range<usize>,
}

/// Everything that changes.
pub(crate) struct State {
    pub(crate) free: FreeList,
    pub(crate) allocations: BTreeMap<usize, Allocation>,
    pub(crate) freed: VecDeque<Freed>,
    /// Addresses that were to be freed in a poisoned context.
    pub(crate) refused_frees: BTreeSet<usize>,
    pub(crate) registered: BTreeMap<usize, Registered>,
    /// What running work touches: its number, and the range.
    pub(crate) touched: Vec<(usize, Range<usize>)>,
    pub(crate) devices: Vec<DeviceState>,
    pub(crate) streams: HashMap<usize, Arc<Stream>>,
    /// Default streams by device, and by device and thread.
    pub(crate) legacy: HashMap<usize, Arc<Stream>>,
    pub(crate) per_thread: HashMap<(usize, u64), Arc<Stream>>,
    /// Streams destroyed while they had work left.
    pub(crate) retired: Vec<Arc<Stream>>,
    pub(crate) launched: HashMap<usize, Launched>,
    pub(crate) events: HashMap<usize, Event>,
    pub(crate) pools: BTreeMap<usize, Pool>,
    pub(crate) modules: HashMap<usize, Arc<Module>>,
    pub(crate) functions: HashMap<usize, Arc<Function>>,
    pub(crate) counters: Counters,
    pub(crate) activity: Activity,
    pub(crate) failures: Vec<Fail>,
    pub(crate) misuse: Vec<Misuse>,
    pub(crate) trace: VecDeque<CallRecord>,
    /// The error that every call returns from now on.
    pub(crate) poison: Option<Code>,
    /// The host's virtual time.
    pub(crate) now: Duration,
    pub(crate) use_clock: u64,
    next_handle: usize,
}

impl State {
    pub(crate) fn new(machine: &Machine, devices: usize) -> State {
        let mut state = State {
            free: FreeList::new(machine.space.len()),
            allocations: BTreeMap::new(),
            freed: VecDeque::new(),
            refused_frees: BTreeSet::new(),
            registered: BTreeMap::new(),
            touched: Vec::new(),
            devices: (0..devices)
                .map(|_| DeviceState::new(&machine.profile))
                .collect(),
            streams: HashMap::new(),
            legacy: HashMap::new(),
            per_thread: HashMap::new(),
            retired: Vec::new(),
            launched: HashMap::new(),
            events: HashMap::new(),
            pools: BTreeMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            counters: Counters::default(),
            activity: Activity::default(),
            failures: Vec::new(),
            misuse: Vec::new(),
            trace: VecDeque::new(),
            poison: None,
            now: Duration::ZERO,
            use_clock: 0,
            next_handle: 0x1000,
        };
        for ordinal in 0..devices {
            let pool = state.add_pool(Pool::default_of(ordinal));
            state.devices[ordinal].default_pool = pool;
            state.devices[ordinal].pool = pool;
        }
        state
    }

    /// A fresh opaque handle; never 0, 1 or 2, which name the default streams.
    pub(crate) fn handle(&mut self) -> usize {
        self.next_handle += 16;
        self.next_handle
    }

    /// The host has seen this work complete: its clock is at least there.
    pub(crate) fn observe(&mut self, completion: &Completion, at: Duration) {
        self.now = self.now.max(at);
        let mut seen = vec![(completion.stream, completion.seq)];
        while let Some((stream, seq)) = seen.pop() {
            let Some(launched) = self.launched.get_mut(&stream) else {
                continue;
            };
            launched.observed = launched.observed.max(seq);
            let observed = launched.observed;
            launched.after.retain(|(at, other, other_seq)| {
                let done = *at <= observed;
                if done {
                    seen.push((*other, *other_seq));
                }
                !done
            });
        }
    }

    /// Poisons the context with a sticky error; the first one stays.
    pub(crate) fn poison(&mut self, code: Code) {
        self.poison.get_or_insert(code);
    }
}
