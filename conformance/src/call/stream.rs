//! Streams and events.

use super::{Code, Cuda};
use crate::Failure;
use cuda_um_sys as sys;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// `cudaStreamLegacy`, by its own value; the null stream is the same stream.
pub(crate) const LEGACY: usize = 1;
/// `cudaStreamPerThread`
pub(crate) const PER_THREAD: usize = 2;

/// A stream: owned, and destroyed when dropped, or one of the default streams.
pub(crate) struct Stream<'c> {
    cuda: &'c Cuda<'c>,
    raw: usize,
}

/// An event, destroyed when dropped.
pub(crate) struct Event<'c> {
    cuda: &'c Cuda<'c>,
    raw: usize,
}

impl<'c> Cuda<'c> {
    /// `cudaStreamCreateWithFlags`: code and handle.
    pub(crate) fn try_stream(&self, flags: u32) -> (Code, usize) {
        let mut stream = null_mut();
        let code = call!(self.table(), cudaStreamCreateWithFlags(&mut stream, flags));
        (code, stream as usize)
    }

    /// A stream that does not wait for the legacy default stream.
    pub(crate) fn stream(&'c self) -> Result<Stream<'c>, Failure> {
        self.stream_with(sys::cudaStreamNonBlocking)
    }

    /// A stream.
    pub(crate) fn stream_with(&'c self, flags: u32) -> Result<Stream<'c>, Failure> {
        let (code, raw) = self.try_stream(flags);
        self.ok("cudaStreamCreateWithFlags", code)?;
        Ok(Stream { cuda: self, raw })
    }

    /// A default stream: 0 or [`LEGACY`], or [`PER_THREAD`].
    pub(crate) fn default_stream(&'c self, raw: usize) -> Stream<'c> {
        assert!(raw <= PER_THREAD, "not a default stream");
        Stream { cuda: self, raw }
    }

    /// Passes a stream of another thread's interface, which outlives the call, to `work`.
    pub(crate) fn with_stream<R>(&'c self, raw: usize, work: impl FnOnce(&Stream<'c>) -> R) -> R {
        let stream = Stream { cuda: self, raw };
        let result = work(&stream);
        // Its owner destroys it.
        std::mem::forget(stream);
        result
    }

    /// `cudaDeviceSynchronize`
    pub(crate) fn synchronize(&self) -> Code {
        call!(self.table(), cudaDeviceSynchronize())
    }

    /// `cudaDeviceGetStreamPriorityRange`: code, least, greatest.
    pub(crate) fn priority_range(&self) -> (Code, i32, i32) {
        let (mut least, mut greatest) = (i32::MIN, i32::MIN);
        let code = call!(
            self.table(),
            cudaDeviceGetStreamPriorityRange(&mut least, &mut greatest)
        );
        (code, least, greatest)
    }

    /// `cudaStreamCreateWithPriority`
    pub(crate) fn stream_with_priority(&'c self, priority: i32) -> Result<Stream<'c>, Failure> {
        let mut stream = null_mut();
        let code = call!(
            self.table(),
            cudaStreamCreateWithPriority(&mut stream, sys::cudaStreamNonBlocking, priority)
        );
        self.ok("cudaStreamCreateWithPriority", code)?;
        Ok(Stream {
            cuda: self,
            raw: stream as usize,
        })
    }

    /// `cudaEventCreateWithFlags`: code and handle.
    pub(crate) fn try_event(&self, flags: u32) -> (Code, usize) {
        let mut event = null_mut();
        let code = call!(self.table(), cudaEventCreateWithFlags(&mut event, flags));
        (code, event as usize)
    }

    /// An event.
    pub(crate) fn event(&'c self, flags: u32) -> Result<Event<'c>, Failure> {
        let (code, raw) = self.try_event(flags);
        self.ok("cudaEventCreateWithFlags", code)?;
        Ok(Event { cuda: self, raw })
    }

    /// No event: the null handle.
    pub(crate) fn no_event(&'c self) -> Event<'c> {
        Event { cuda: self, raw: 0 }
    }

    /// `cudaStreamDestroy` of a stream that the case does not own: refused.
    pub(crate) fn destroy_null_stream(&self) -> Code {
        call!(self.table(), cudaStreamDestroy(null_mut()))
    }

    /// `cudaLaunchHostFunc` of a function that increments a counter.
    pub(crate) fn count_on(&self, counter: &Arc<AtomicU32>, stream: &Stream<'_>) -> Code {
        unsafe extern "C" fn count(counter: *mut c_void) {
            // SAFETY: this is the reference that was passed below; the function runs once.
            unsafe { Arc::from_raw(counter.cast::<AtomicU32>().cast_const()) }
                .fetch_add(1, Ordering::SeqCst);
        }
        let share = Arc::into_raw(Arc::clone(counter));
        let code = call!(
            self.table(),
            cudaLaunchHostFunc(stream.raw as _, Some(count), share.cast_mut().cast())
        );
        if code.0 != 0 {
            // SAFETY: the function was not enqueued, so the reference is still ours.
            drop(unsafe { Arc::from_raw(share) });
        }
        code
    }

    /// `cudaLaunchHostFunc` in a capture, of a function that increments a counter, which outlives the launches of the graph.
    pub(crate) fn count_in_graph(&self, counter: &Arc<AtomicU32>, stream: &Stream<'_>) -> Code {
        unsafe extern "C" fn count(counter: *mut c_void) {
            // SAFETY: the counter lives, see above.
            unsafe { &*counter.cast::<AtomicU32>().cast_const() }.fetch_add(1, Ordering::SeqCst);
        }
        let counter = Arc::as_ptr(counter).cast_mut().cast();
        call!(
            self.table(),
            cudaLaunchHostFunc(stream.raw as _, Some(count), counter)
        )
    }

    /// `cudaEventElapsedTime`: code and milliseconds.
    pub(crate) fn elapsed(&self, start: &Event<'_>, end: &Event<'_>) -> (Code, f32) {
        let mut milliseconds = f32::NAN;
        let code = call!(
            self.table(),
            cudaEventElapsedTime(&mut milliseconds, start.raw as _, end.raw as _)
        );
        (code, milliseconds)
    }
}

impl<'c> Stream<'c> {
    pub(super) fn cuda(&self) -> &'c Cuda<'c> {
        self.cuda
    }
}

impl Stream<'_> {
    pub(crate) fn raw(&self) -> usize {
        self.raw
    }

    /// `cudaStreamSynchronize`
    pub(crate) fn synchronize(&self) -> Code {
        call!(self.cuda.table(), cudaStreamSynchronize(self.raw as _))
    }

    /// `cudaStreamQuery`
    pub(crate) fn query(&self) -> Code {
        call!(self.cuda.table(), cudaStreamQuery(self.raw as _))
    }

    /// `cudaStreamWaitEvent`
    pub(crate) fn wait(&self, event: &Event<'_>) -> Code {
        call!(
            self.cuda.table(),
            cudaStreamWaitEvent(self.raw as _, event.raw as _, 0)
        )
    }

    /// `cudaStreamDestroy`
    pub(crate) fn destroy(self) -> Code {
        let code = self.give_back();
        std::mem::forget(self);
        code
    }

    fn give_back(&self) -> Code {
        // The stream lives, and is destroyed once.
        call!(self.cuda.table(), cudaStreamDestroy(self.raw as _))
    }
}

impl Event<'_> {
    pub(super) fn cuda(&self) -> &Cuda<'_> {
        self.cuda
    }

    pub(super) fn raw(&self) -> usize {
        self.raw
    }

    /// `cudaEventRecord`
    pub(crate) fn record(&self, stream: &Stream<'_>) -> Code {
        call!(
            self.cuda.table(),
            cudaEventRecord(self.raw as _, stream.raw as _)
        )
    }

    /// `cudaEventQuery`
    pub(crate) fn query(&self) -> Code {
        call!(self.cuda.table(), cudaEventQuery(self.raw as _))
    }

    /// `cudaEventSynchronize`
    pub(crate) fn synchronize(&self) -> Code {
        call!(self.cuda.table(), cudaEventSynchronize(self.raw as _))
    }

    /// `cudaEventDestroy`
    pub(crate) fn destroy(self) -> Code {
        let code = self.give_back();
        std::mem::forget(self);
        code
    }

    fn give_back(&self) -> Code {
        // The event lives, and is destroyed once.
        call!(self.cuda.table(), cudaEventDestroy(self.raw as _))
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if self.raw > PER_THREAD && self.give_back() != Code::SUCCESS {
            self.cuda.complain("a stream is not destroyed".to_owned());
        }
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        if self.raw != 0 && self.give_back() != Code::SUCCESS {
            self.cuda.complain("an event is not destroyed".to_owned());
        }
    }
}
