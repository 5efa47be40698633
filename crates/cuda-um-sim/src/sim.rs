//! The simulator's handle.
// `Table::from_symbols` is unsafe: it trusts the signatures of the functions that it gets.
#![allow(unsafe_code)]

use std::any::Any;
use std::sync::{Arc, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use cuda_um_sys::locks::Mutex;
use cuda_um_sys::{Table, cudaError};

use crate::call_log::CallRecord;
use crate::counters::Counters;

use crate::engine::{Code, Core, Hold, Kind, OnWait};
use crate::error::SimError;
use crate::inject::Fail;
use crate::misuse::{Leak, Misuse};
use crate::preset::CudaVersion;
use crate::{entry, host_fault, slot};

/// A simulated machine with its CUDA runtime. Clones are handles of the same machine.
///
/// It exists as long as a handle or a [`table`](Sim::table) of it; then its streams finish, and its memory is released.
///
/// ```
/// use cuda_um_sim::Sim;
///
/// let sim = Sim::builder().devices(2).build()?;
/// drop(sim.pause()); // no stream works while the guard lives
/// sim.on_wait(|call| println!("{call} waits"));
/// let hold = sim.hold(7); // the streams start at the first wait, in an order that belongs to 7
/// // … call functions of `sim.table()` …
/// assert!(!hold.is_over());
/// sim.host_wrote(std::ptr::null(), 1 << 20); // the time of the program's own writes
/// assert!(sim.now() > sim.device_time(0).unwrap());
/// sim.lose(1);
/// println!("{:?}, after {:?}", sim.loss_of(1), sim.trace());
/// sim.clear_trace();
/// # Ok::<(), cuda_um_sim::SimError>(())
/// ```
#[derive(Clone)]
pub struct Sim {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    slot: usize,
    table: Mutex<Weak<Table>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A child of fork has no threads to shut down.
        if self.core.is_inherited() {
            return;
        }
        self.core.set_on_wait(None);
        self.core.shut_down();
        host_fault::unwatch(&self.core);
        slot::give(self.slot);
    }
}

impl Sim {
    pub(crate) fn start(core: Arc<Core>, patience: Duration) -> Result<Sim, SimError> {
        let slot =
            slot::take(&core, patience).ok_or(SimError::NoFreeSlot { slots: slot::SLOTS })?;
        core.set_slot(slot);
        entry::forget_cupti_client(slot);
        host_fault::watch(&core);
        let sim = Sim {
            inner: Arc::new(Inner {
                core,
                slot,
                table: Mutex::default(),
            }),
        };
        // If the table cannot be made, building fails here; so `table` cannot fail.
        let table = sim.make_table()?;
        *sim.inner.table.lock() = Arc::downgrade(&table);
        Ok(sim)
    }

    fn make_table(&self) -> Result<Arc<Table>, SimError> {
        let owner: Arc<dyn Any + Send + Sync> = self.inner.clone();
        let soname = match self.inner.core.machine.cuda {
            CudaVersion::V11_8 => 11,
            CudaVersion::V12_2 | CudaVersion::V12_9 => 12,
            CudaVersion::V13_0 | CudaVersion::V13_4 => 13,
        };
        let mut resolve = |name: &std::ffi::CStr| {
            name.to_str()
                .map_or(std::ptr::null(), |name| self.symbol(name))
        };
        // SAFETY: every symbol that `entry::symbol` gives has the signature that CUDA documents for its name in the simulated
        // version, and the functions work as long as the slot is held, which `owner` does.
        unsafe { Table::from_symbols(owner, Some(soname), &mut resolve) }
            .map(Arc::new)
            .map_err(SimError::Table)
    }

    /// The function table of the simulated runtime, for code that takes a table of the real one. It keeps the simulator alive.
    ///
    /// # Panics
    /// Never: the same table was made when the simulator was built.
    pub fn table(&self) -> Arc<Table> {
        let mut kept = self.inner.table.lock();
        if let Some(table) = kept.upgrade() {
            return table;
        }
        let table = self.make_table().expect("the table was made once already");
        *kept = Arc::downgrade(&table);
        table
    }

    /// The address of a symbol of the simulated runtime library, of its driver or of its CUPTI, as from `dlsym`; null if the simulated version
    /// does not have it.
    #[doc(hidden)]
    pub fn symbol(&self, name: &str) -> *const std::ffi::c_void {
        let (slot, machine) = (self.inner.slot, &self.inner.core.machine);
        if name.starts_with("cupti") {
            return entry::cupti_symbol(slot, machine.cupti, name);
        }
        if !name.trim_start_matches('_').starts_with("cuda") {
            return entry::driver_symbol(slot, machine, name);
        }
        entry::symbol(slot, machine.cuda, name)
    }

    /// The simulated CUDA version.
    pub fn cuda(&self) -> CudaVersion {
        self.inner.core.machine.cuda
    }

    /// The counts so far.
    ///
    /// # Ordering
    /// Work that streams have not run yet is not counted yet: synchronize first.
    pub fn counters(&self) -> Counters {
        self.inner.core.state.lock().records.counters
    }

    /// Starts counting from zero.
    pub fn reset_counters(&self) {
        self.inner.core.state.lock().records.counters = Counters::default();
    }

    /// The host's virtual time. Only calls, CPU faults, waits and [`host_wrote`](Sim::host_wrote) advance it.
    pub fn now(&self) -> Duration {
        self.inner.core.state.lock().now
    }

    /// Advances the virtual clock by the time that one host thread needs to write `bytes` bytes.
    ///
    /// The simulator sees only the faults of the host, not the rest of its work. A program whose times should include its writes calls
    /// this after the writes themselves. The call touches no memory. It counts nothing, except that the host accesses system memory, which
    /// faults and migrates if it is on a device: those accesses are not seen otherwise.
    pub fn host_wrote(&self, pointer: *const std::ffi::c_void, bytes: usize) {
        let mut state = self.inner.core.state.lock();
        state.host_access(pointer as usize, bytes, true);
        state.host_wrote(pointer as usize, bytes);
    }

    /// The virtual time at which the last work of a device ended; `None` if there is no such device.
    pub fn device_time(&self, device: u32) -> Option<Duration> {
        self.inner
            .core
            .state
            .lock()
            .devices
            .get(device as usize)
            .map(|device| device.end)
    }

    /// Makes a call fail.
    pub fn fail(&self, failure: Fail) {
        self.inner.core.state.lock().failures.add(failure);
    }

    /// Loses a device, as by a fault of its memory: from now on, calls for it, and copies from and to its memory, return
    /// `cudaErrorECCUncorrectable`, and its streams run no more work. The other devices go on. A device that does not exist is not lost.
    pub fn lose(&self, device: u32) {
        let core = &self.inner.core;
        if (device as usize) < core.state.lock().devices.len() {
            core.context.lose(device as usize, Code::ECC_UNCORRECTABLE);
        }
    }

    /// Removes every failure that [`fail`](Sim::fail) added. A poisoned context stays poisoned.
    pub fn clear_failures(&self) {
        self.inner.core.state.lock().failures.clear();
    }

    /// The sticky error that poisons the context, if there is one.
    pub fn poison(&self) -> Option<cudaError> {
        let poison = self.inner.core.context.poison();
        poison.map(|code| cudaError(code.0))
    }

    /// The error of a device that is lost ([`Fail::on_device`]).
    pub fn loss_of(&self, device: u32) -> Option<cudaError> {
        let loss = self.inner.core.context.loss_of(device as usize);
        loss.map(|code| cudaError(code.0))
    }

    /// The latest calls, at most 65,536.
    pub fn trace(&self) -> Vec<CallRecord> {
        self.inner.core.state.lock().calls.to_vec()
    }

    /// Removes all calls from the trace.
    pub fn clear_trace(&self) {
        self.inner.core.state.lock().calls.clear();
    }

    /// Misuse by the program under test, in order.
    pub fn misuse(&self) -> Vec<Misuse> {
        self.inner.core.state.lock().misuse.reported()
    }

    /// Memory and handles that were created and not released: at the end of a test, leaks.
    ///
    /// # Ordering
    /// A stream-ordered free counts when the stream has run it: synchronize first.
    pub fn leaks(&self) -> Vec<Leak> {
        let state = self.inner.core.state.lock();
        let memory = state.memory.iter().filter(|allocation| !allocation.kept);
        let memory = memory.map(|allocation| Leak::Memory {
            address: allocation.base,
            bytes: allocation.bytes,
            kind: match (allocation.kind, allocation.pool) {
                (_, Some(_)) => "cudaMallocAsync",
                (Kind::Managed, _) => "cudaMallocManaged",
                (Kind::Device(_), _) => "cudaMalloc",
                (Kind::Pinned { .. }, _) => "cudaHostAlloc",
            },
        });
        let (graphs, execs) = state.graphs.len();
        let registered = state.memory.registered.iter();
        let registered = registered.map(|(address, registered)| Leak::Registration {
            address,
            bytes: registered.bytes,
        });
        memory
            .chain(registered)
            .chain((0..state.streams.created()).map(|_| Leak::Stream))
            .chain((0..state.events.len()).map(|_| Leak::Event))
            .chain((0..state.pools.created()).map(|_| Leak::Pool))
            .chain((0..state.modules.len()).map(|_| Leak::Module))
            .chain((0..graphs).map(|_| Leak::Graph))
            .chain((0..execs).map(|_| Leak::GraphExec))
            .collect()
    }

    /// Sets a function that every waiting call calls with the name of its C function: calls that synchronize, free or unregister, and
    /// copies that return when they are done. It is called before the wait, on the thread that calls, even if all work has ended; queries
    /// do not wait. It replaces the function that was set before, which is dropped.
    ///
    /// The simulator holds no lock during the call, so the function may use the simulator, and catches its panics. A test can check there
    /// which locks of the program under test the thread holds.
    pub fn on_wait(&self, on_wait: impl Fn(&'static str) + Send + Sync + 'static) {
        let on_wait: OnWait = Arc::new(on_wait);
        self.inner.core.set_on_wait(Some(on_wait));
    }

    /// Holds every stream before its next piece of work, until the guard is dropped. Work stays in flight, so that tests of it are
    /// deterministic. A call that waits for a stream waits until the guard is dropped, too.
    #[must_use = "streams go on when the guard is dropped"]
    pub fn pause(&self) -> PauseGuard {
        self.inner.core.context.gate.pause();
        PauseGuard { sim: self.clone() }
    }

    /// Holds every stream before its next piece of work, until a call waits for one, or the guard is dropped. Then the streams go on one
    /// by one, in an order that `order` chooses: each runs all work that it can before the next one starts. So a missing order between
    /// streams shows, independently of how this machine schedules threads.
    #[must_use = "streams go on when the guard is dropped"]
    pub fn hold(&self, order: u64) -> HoldGuard {
        HoldGuard {
            sim: self.clone(),
            hold: self.inner.core.context.gate.hold(order),
        }
    }
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim")
            .field("device", &self.inner.core.machine.profile.name)
            .field("cuda", &self.cuda())
            .finish_non_exhaustive()
    }
}

/// Streams do nothing while this guard exists: see [`Sim::pause`].
#[derive(Debug)]
pub struct PauseGuard {
    sim: Sim,
}

/// Streams do nothing while this guard exists, until a call waits for one: see [`Sim::hold`].
pub struct HoldGuard {
    sim: Sim,
    hold: Arc<Hold>,
}

impl HoldGuard {
    /// Whether the hold has ended. Before that, no work that was enqueued after [`Sim::hold`] has run.
    pub fn is_over(&self) -> bool {
        self.hold.is_over()
    }

    /// The thread whose call waited for a stream.
    pub fn ended_by(&self) -> Option<ThreadId> {
        self.hold.ended_by()
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.sim.inner.core.end_hold(&self.hold);
    }
}

impl std::fmt::Debug for HoldGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HoldGuard")
            .field("is_over", &self.is_over())
            .finish_non_exhaustive()
    }
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        self.sim.inner.core.context.gate.resume();
    }
}
