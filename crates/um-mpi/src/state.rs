//! MPI in this process: its functions, the rank, and whether it still works.
#![allow(unsafe_code, reason = "calls MPI")]

use crate::MpiError;
use crate::abi::{
    COMM_WORLD, Functions, Handle, MAX_ERROR_STRING, MAX_PROCESSOR_NAME, STATUS_IGNORE,
};
use crate::watch::Watch;
use crate::witness::Witness;
use cuda_um_locks::Mutex;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a waiting rank looks for ranks that are gone.
const LOOK: Duration = Duration::from_millis(10);
/// How long an operation may still complete after a rank has ended: the rank may have ended as it should, with its bytes under way.
const GRACE: Duration = Duration::from_millis(500);
/// How long a rank that waits for others keeps its core. Later it sleeps between two looks.
const BUSY: Duration = Duration::from_millis(20);
const SLEEP: Duration = Duration::from_micros(100);

/// The initialised MPI of this process.
pub(crate) struct State {
    pub(crate) functions: Functions,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) watch: OnceLock<Watch>,
    /// The error after which MPI can only be aborted: memory may still be in use by an operation that never ends.
    pub(crate) broken: OnceLock<MpiError>,
    /// MPI is finalised or about to be aborted.
    pub(crate) ended: AtomicBool,
    pub(crate) witness: Mutex<Option<Witness>>,
}

/// How an operation waits.
pub(crate) struct Patience {
    pub(crate) limit: Option<Duration>,
    /// The other ranks may arrive much later: the core is left to others.
    pub(crate) sleeps: bool,
}

impl State {
    /// An error if an operation failed before.
    pub(crate) fn usable(&self) -> Result<(), MpiError> {
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Ends the use of MPI with this error.
    pub(crate) fn break_with(&self, error: MpiError) -> MpiError {
        self.broken.get_or_init(|| error).clone()
    }

    /// Waits for the end of an operation.
    pub(crate) fn wait(
        &self,
        mut request: Handle,
        operation: &dyn std::fmt::Display,
        patience: &Patience,
    ) -> Result<(), MpiError> {
        let started = Instant::now();
        let mut looked = started;
        let mut lost: Option<(MpiError, Instant)> = None;
        loop {
            let mut done: c_int = 0;
            // SAFETY: the request of an operation that was started; both pointers are valid.
            let code = unsafe { (self.functions.test)(&mut request, &mut done, STATUS_IGNORE) };
            self.functions.check("MPI_Test", code)?;
            if done != 0 {
                return Ok(());
            }
            let now = Instant::now();
            if now - looked >= LOOK {
                looked = now;
                if let Some((error, since)) = &lost
                    && now - *since >= GRACE
                {
                    return Err(error.clone());
                }
                lost = lost.or_else(|| Some((self.watch.get()?.lost()?, now)));
                if let Some(limit) = patience.limit
                    && now - started >= limit
                {
                    let operation = operation.to_string();
                    return Err(MpiError::TimedOut { operation, limit });
                }
            }
            match patience.sleeps && now - started >= BUSY {
                true => std::thread::sleep(SLEEP),
                false => std::thread::yield_now(),
            }
        }
    }

    /// Ends the processes of all ranks.
    pub(crate) fn abort(&self, code: i32, reason: &str) -> ! {
        self.ended.store(true, Ordering::SeqCst);
        eprintln!(
            "um-mpi: rank {} of {}: {reason}; MPI_Abort ends all ranks",
            self.rank, self.size
        );
        // The report above is enough.
        if let Some(witness) = &mut *self.witness.lock() {
            witness.dismiss();
        }
        // SAFETY: MPI is initialised and not finalised.
        unsafe { (self.functions.abort)(COMM_WORLD, code) };
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
        let mut text = [0_u8; MAX_ERROR_STRING + 1];
        let mut len = 0;
        // SAFETY: both functions may be called at any time; the text has the room that the standard asks for.
        unsafe {
            (self.error_class)(code, &mut class);
            (self.error_string)(code, text.as_mut_ptr().cast::<c_char>(), &mut len);
        }
        Err(MpiError::Call {
            function,
            code,
            class,
            message: first_line(&text),
        })
    }

    /// The name of this machine.
    pub(crate) fn processor_name(&self) -> String {
        let mut text = [0_u8; MAX_PROCESSOR_NAME + 1];
        let mut len = 0;
        // SAFETY: the text has the room that the standard asks for.
        unsafe { (self.get_processor_name)(text.as_mut_ptr().cast::<c_char>(), &mut len) };
        first_line(&text)
    }
}

/// A C string up to its first line break.
pub(crate) fn first_line(text: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(text).map(CStr::to_string_lossy);
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
