//! Holds a stream until the case releases it, so that work stays in flight for as long as a case needs, also on a GPU.

use super::{Code, Cuda, Memory, Stream};
use crate::Failure;
use cuda_um_sys as sys;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The kernel ends by itself after this time, so that no GPU hangs.
const PATIENCE_NANOSECONDS: u64 = 4_000_000_000;

/// A kernel that waits. Opened by `open`, or when dropped.
pub(crate) struct Gate<'c> {
    cuda: &'c Cuda<'c>,
    flag: Memory<'c>,
    event: super::Event<'c>,
}

impl<'c> Cuda<'c> {
    /// Holds a stream. Allocate before this call, because allocating and freeing may wait for the device.
    pub(crate) fn gate(&'c self, stream: &Stream<'_>) -> Result<Gate<'c>, Failure> {
        let flag = self.pinned(8, sys::cudaHostAllocMapped | sys::cudaHostAllocPortable)?;
        flag.fill_all(0);
        let event = self.event(sys::cudaEventDisableTiming)?;
        self.launch_wait(&flag, PATIENCE_NANOSECONDS, stream)?;
        event.record(stream).done(self, "cudaEventRecord")?;
        Ok(Gate {
            cuda: self,
            flag,
            event,
        })
    }
}

impl Gate<'_> {
    /// Releases the stream, and waits for the kernel.
    pub(crate) fn open(self) -> Result<(), Failure> {
        self.flag.store(0, 1);
        self.event
            .synchronize()
            .done(self.cuda, "cudaEventSynchronize")?;
        match self.flag.value(1..2)? {
            1 => Ok(()),
            other => super::fail(format!(
                "the kernel did not wait until the gate was opened ({other}): something waited for the stream meanwhile"
            )),
        }
    }

    /// Makes a call while the stream is held, and releases the stream from another thread. Returns whether the call waited for
    /// the release, and the result of the call. The outcome does not depend on time: a call that must wait returns after the
    /// release, however late that is.
    pub(crate) fn across<T>(&self, call: impl FnOnce() -> T) -> (bool, T) {
        let (opened, flag) = (AtomicBool::new(false), self.flag.word(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                opened.store(true, Ordering::SeqCst);
                flag.store(1, Ordering::Release);
            });
            let got = call();
            (opened.load(Ordering::SeqCst), got)
        })
    }

    /// Releases the stream without waiting.
    pub(crate) fn release(&self) {
        self.flag.store(0, 1);
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.flag.store(0, 1);
        if self.event.synchronize() != Code::SUCCESS {
            self.cuda
                .complain("a held stream did not end well".to_owned());
        }
    }
}
