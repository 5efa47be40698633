//! MPI from its initialisation to its end.
#![allow(unsafe_code, reason = "calls MPI")]

use crate::abi::{
    COMM_NULL, COMM_SELF, COMM_TYPE_SHARED, COMM_WORLD, Functions, INFO_NULL, THREAD_MULTIPLE,
};
use crate::header::{ALL_GATHER, END};
use crate::library;
use crate::state::{State, lock};
use crate::watch::{Process, Watch};
use crate::witness::Witness;
use crate::{Communicator, MpiError};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use um_search::World;

/// Variables in which launchers tell a process how many there are.
const RANKS: [&str; 2] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"];

/// A thread has begun to initialise MPI.
static STARTED: AtomicBool = AtomicBool::new(false);
/// MPI, since it is initialised.
static STATE: OnceLock<State> = OnceLock::new();

/// The initialised MPI library of this process. There is one in a program, from its first lines to its end.
///
/// A drop finalises MPI, after all ranks have dropped theirs; ranks that call something else meanwhile get [`MpiError::Order`]. A drop during a
/// panic, or after an error of MPI itself, ends all ranks (`MPI_Abort`), because the others would wait for ever; so does a process that
/// exits (`std::process::exit`) before the drop. Each of these prints a line that names the rank.
///
/// A child made by `fork` is not a rank: it gets [`MpiError::Forked`], and its drop does nothing.
///
/// It stays on the thread that made it, as MPI requires; its communicators can be used on every thread.
#[doc(alias = "MPI_Init_thread")]
#[doc(alias = "MPI_Finalize")]
pub struct Mpi {
    world: Communicator<'static>,
    local_rank: usize,
    /// `MPI_Finalize` is for the thread of `MPI_Init_thread`.
    thread: PhantomData<*const ()>,
}

impl Mpi {
    /// Opens the MPI library and initialises it, for use by several threads. Returns when all ranks have called this.
    ///
    /// If `CUDA_UM_MPI` is set and not empty (an absolute path, or a name for the system's loader; trusted input), only this library is tried, otherwise
    /// `libmpi_abi.so.1`, `libmpi_abi.so.0` and `libmpi_abi.so`. The library stays loaded. A program that was started without a launcher has one
    /// rank. In a program of several ranks, a shell (`/bin/sh`) waits beside each process, and reports the rank if the process is killed.
    ///
    /// # Errors
    /// - [`MpiError::NotFound`]: there is no library that can be used.
    /// - [`MpiError::AlreadyInitialized`]: this is not the first call in this process.
    /// - [`MpiError::Forked`]: this process is a child that a rank made by `fork`.
    /// - [`MpiError::OtherLauncher`]: the launcher is not the one of the library.
    /// - [`MpiError::ThreadLevel`], [`MpiError::Call`]: the library cannot be initialised.
    pub fn init() -> Result<Self, MpiError> {
        if let Some(state) = STATE.get() {
            state.check_fork()?;
        }
        let (functions, library) = library::open()?;
        let mut initialized = 0;
        // SAFETY: this may be called at any time; the pointer is valid.
        unsafe { functions.initialized(&mut initialized) }?;
        if initialized != 0 || STARTED.swap(true, Ordering::SeqCst) {
            return Err(MpiError::AlreadyInitialized);
        }
        let state = start(functions, library)?;
        let mut world = COMM_NULL;
        // SAFETY: MPI is initialised; the pointer is valid. A communicator of its own, so that no message meets one of another library.
        unsafe { functions.comm_dup(COMM_WORLD, &mut world) }?;
        Ok(Self {
            world: Communicator::new(state, world)?,
            local_rank: meet_the_others_of_this_machine(state)?,
            thread: PhantomData,
        })
    }

    /// All ranks of the program.
    #[doc(alias = "MPI_COMM_WORLD")]
    pub fn world(&self) -> &Communicator<'_> {
        &self.world
    }

    /// The number of this rank among those on the same machine, from 0.
    #[doc(alias = "MPI_Comm_split_type")]
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// The ordinal of the device for this rank, of `device_count` that it sees: the local rank modulo the count.
    ///
    /// Ranks of one machine get different devices as long as there are enough, and share them evenly otherwise. A launcher that gives each rank a
    /// device of its own (`CUDA_VISIBLE_DEVICES`) leaves it one device, which is number 0.
    ///
    /// # Errors
    /// [`MpiError::NoDevice`] if `device_count` is 0.
    pub fn device_for_local_rank(&self, device_count: usize) -> Result<usize, MpiError> {
        let ordinal = self.local_rank.checked_rem(device_count);
        ordinal.ok_or(MpiError::NoDevice)
    }

    /// Ends the processes of all ranks, with this exit code, after a line on the standard error that names this rank. Nothing is dropped. In a
    /// child made by `fork` only the child ends.
    #[doc(alias = "MPI_Abort")]
    pub fn abort(&self, code: i32) -> ! {
        self.world
            .state
            .abort(code, "the program asked to end the job")
    }
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mpi({:?}, local rank {})", self.world, self.local_rank)
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        let state = self.world.state;
        // A child made by fork inherits this, but is not a rank.
        if state.check_fork().is_err() {
            return;
        }
        if state.size > 1 {
            if std::thread::panicking() {
                state.abort(101, "the program panicked");
            }
            // Until all ranks have come here. One that still wants to do something gets an error.
            while let Err(error) = self.world.exchange(END, 0, &[]) {
                if !matches!(error, MpiError::Order { .. }) {
                    state.abort(1, &error.to_string());
                }
            }
        }
        finalize(state);
    }
}

/// Initialises MPI.
fn start(functions: Functions, library: String) -> Result<&'static State, MpiError> {
    let mut provided = 0;
    let none = std::ptr::null_mut();
    // SAFETY: the first call in this process; the standard allows null for the arguments of the program.
    unsafe { functions.init_thread(none, none.cast(), THREAD_MULTIPLE, &mut provided) }?;
    // An error without a communicator goes to the handler of MPI_COMM_SELF.
    functions.take(COMM_SELF)?;
    let (rank, size) = functions.take(COMM_WORLD)?;
    let state = STATE.get_or_init(|| State {
        functions,
        rank,
        size,
        pid: std::process::id(),
        watch: OnceLock::new(),
        broken: OnceLock::new(),
        witness: Mutex::new(None),
    });
    // An empty variable is an unset one.
    let value = |variable| std::env::var(variable).ok().filter(|it| !it.is_empty());
    let told = |variable| Some((variable, value(variable)?));
    let refused = match RANKS.into_iter().find_map(told) {
        _ if provided < THREAD_MULTIPLE => Some(MpiError::ThreadLevel { provided }),
        Some((variable, value)) if size == 1 && value != "1" => Some(MpiError::OtherLauncher {
            variable,
            value,
            library,
        }),
        _ => None,
    };
    if let Some(error) = refused {
        finalize(state);
        return Err(error);
    }
    if size > 1 {
        let (pid, host) = (state.pid, functions.processor_name());
        let witness = Witness::new(&format!(
            "um-mpi: rank {rank} of {size} (PID {pid} at {host}) ended without MPI_Finalize"
        ));
        *lock(&state.witness) = Some(witness);
        // SAFETY: the handler does not unwind, and the code of this program stays loaded.
        unsafe { libc::atexit(at_exit) };
    }
    Ok(state)
}

/// Begins to watch the other ranks of this machine. Returns the number of this rank among them.
fn meet_the_others_of_this_machine(state: &'static State) -> Result<usize, MpiError> {
    let (mut local, key) = (COMM_NULL, state.rank as c_int);
    // SAFETY: MPI is initialised, and all ranks come here; the pointer is valid.
    unsafe {
        (state.functions).comm_split_type(COMM_WORLD, COMM_TYPE_SHARED, key, INFO_NULL, &mut local)
    }?;
    let local = Communicator::new(state, local)?;
    let this = Process::this(state.rank);
    let all = local.exchange(ALL_GATHER, 0, bytemuck::bytes_of(&this))?;
    let all = all.iter().map(|bytes| bytemuck::pod_read_unaligned(bytes));
    let _ = state.watch.set(Watch::new(&this, all));
    Ok(local.rank())
}

/// The process exits without a drop of [`Mpi`]: MPICH's launcher would often end the job with the exit code 0.
extern "C" fn at_exit() {
    if let Some(state) = STATE.get()
        // A child made by fork is not a rank.
        && state.check_fork().is_ok()
        && lock(&state.witness).is_some()
    {
        state.abort(1, "the process exits without MPI_Finalize");
    }
}

fn finalize(state: &State) {
    state.end_watch();
    // SAFETY: MPI is initialised, and all operations of this process have ended.
    if let Err(error) = unsafe { state.functions.finalize() } {
        eprintln!("um-mpi: rank {} of {}: {error}", state.rank, state.size);
    }
}
