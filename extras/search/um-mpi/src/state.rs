//! MPI in this process: its functions, the rank, and whether it still works.
#![allow(unsafe_code, reason = "calls MPI")]

use crate::MpiError;
use crate::abi::{
    COMM_WORLD, ERRORS_RETURN, Functions, Handle, MAX_LIBRARY_VERSION_STRING, STATUS_IGNORE,
};
use crate::watch::Watch;
use crate::witness::Witness;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often a waiting rank looks for ranks that are gone.
const LOOK: Duration = Duration::from_millis(10);
/// How long an operation may still complete after a rank has ended: the rank may have ended as it should, with its bytes under way.
const GRACE: Duration = Duration::from_millis(500);
/// How long a rank that waits for others to arrive keeps its core. Later it sleeps between two looks.
pub(crate) const BUSY: Duration = Duration::from_millis(20);
const SLEEP: Duration = Duration::from_micros(100);

/// The lock, also after a panic of another thread: each value is whole between two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The initialised MPI of this process.
pub(crate) struct State {
    pub(crate) functions: Functions,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) pid: u32,
    pub(crate) watch: OnceLock<Watch>,
    /// The error after which MPI can only be aborted: memory may still be in use by an operation that never ends.
    pub(crate) broken: OnceLock<MpiError>,
    /// There is one from the initialisation of several ranks until MPI is finalised or about to be aborted.
    pub(crate) witness: Mutex<Option<Witness>>,
}

impl State {
    /// The error in a child made by fork: it is not a rank, and MPI is that of its parent.
    pub(crate) fn check_fork(&self) -> Result<(), MpiError> {
        match std::process::id() {
            pid if pid == self.pid => Ok(()),
            pid => Err(MpiError::Forked {
                pid,
                rank: self.rank,
                parent: self.pid,
            }),
        }
    }

    /// The error for the lowest rank whose process has ended.
    fn lost(&self) -> Option<MpiError> {
        let process = self.watch.get()?.lost()?;
        Some(MpiError::RankLost {
            rank: process.rank as usize,
            size: self.size,
            pid: process.pid,
            // Only those of this machine are watched.
            host: self.functions.processor_name(),
        })
    }

    /// Waits for the end of an operation, for `busy` without sleep.
    pub(crate) fn wait(
        &self,
        mut request: Handle,
        operation: &dyn std::fmt::Display,
        limit: Option<Duration>,
        busy: Duration,
    ) -> Result<(), MpiError> {
        let started = Instant::now();
        let mut next_look = LOOK;
        let mut lost: Option<(MpiError, Duration)> = None;
        loop {
            let mut done: c_int = 0;
            // SAFETY: the request of an operation that was started; both pointers are valid.
            unsafe { self.functions.test(&mut request, &mut done, STATUS_IGNORE) }?;
            if done != 0 {
                return Ok(());
            }
            let waited = started.elapsed();
            if waited >= next_look {
                next_look = waited + LOOK;
                match lost {
                    Some((error, since)) if waited >= since + GRACE => return Err(error),
                    None => lost = self.lost().map(|error| (error, waited)),
                    _ => {}
                }
                if let Some(limit) = limit.filter(|limit| waited >= *limit) {
                    let operation = operation.to_string();
                    return Err(MpiError::TimedOut { operation, limit });
                }
            }
            match waited >= busy {
                true => std::thread::sleep(SLEEP),
                false => std::thread::yield_now(),
            }
        }
    }

    /// The exit of this process needs no report from now on.
    pub(crate) fn end_watch(&self) {
        if let Some(witness) = lock(&self.witness).take() {
            witness.dismiss();
        }
    }

    /// Ends the processes of all ranks; in a child made by fork, only the child.
    pub(crate) fn abort(&self, code: i32, reason: &str) -> ! {
        if let Err(error) = self.check_fork() {
            eprintln!("um-mpi: {reason}; {error}");
            // SAFETY: it runs nothing of this process. The handlers at the exit are those of the parent's MPI, too.
            unsafe { libc::_exit(code) }
        }
        eprintln!(
            "um-mpi: rank {} of {}: {reason}; MPI_Abort ends all ranks",
            self.rank, self.size
        );
        self.end_watch();
        // SAFETY: MPI is initialised and not finalised.
        let _ = unsafe { self.functions.abort(COMM_WORLD, code) };
        std::process::abort()
    }
}

impl Functions {
    /// The error of a function that did not return success.
    pub(crate) fn check(&self, function: &'static str, code: c_int) -> Result<(), MpiError> {
        if code == 0 {
            return Ok(());
        }
        let mut class = code;
        // SAFETY: both functions may be called at any time.
        let message = text(|text, len| unsafe {
            (self.error_class)(code, &mut class);
            (self.error_string)(code, text, len);
        });
        Err(MpiError::Call {
            function,
            class,
            message,
        })
    }

    /// Lets the functions of a communicator return their errors. Returns its rank and size.
    pub(crate) fn take(&self, communicator: Handle) -> Result<(usize, usize), MpiError> {
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: MPI is initialised, the handle is a communicator of this process, and the pointers are valid.
        unsafe {
            self.comm_set_errhandler(communicator, ERRORS_RETURN)?;
            self.comm_rank(communicator, &mut rank)?;
            self.comm_size(communicator, &mut size)?;
        }
        Ok((rank as usize, size as usize))
    }

    /// The name of this machine.
    pub(crate) fn processor_name(&self) -> String {
        // SAFETY: MPI is initialised. A failure leaves an empty text.
        text(|text, len| _ = unsafe { self.get_processor_name(text, len) })
    }
}

/// The first line of a text that a function of MPI writes, to as many bytes as the standard asks for.
pub(crate) fn text(write: impl FnOnce(*mut c_char, *mut c_int)) -> String {
    let mut text = [0_u8; MAX_LIBRARY_VERSION_STRING + 1];
    write(text.as_mut_ptr().cast(), &mut 0);
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    let text = text.to_string_lossy();
    text.lines().next().unwrap_or_default().to_owned()
}
