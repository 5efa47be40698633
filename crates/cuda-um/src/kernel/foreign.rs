//! Work of other libraries on buffers.

use crate::context::op::{Op, What};
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::error::Result;
use crate::kernel::argument::KernelArgs;
use cuda_um_sys::cudaStream_t;
use std::cell::LazyCell;

/// The stream and the addresses for work of another library: the argument of the closure of [`Stream::enqueue_foreign`].
pub struct ForeignWork<'a> {
    stream: cudaStream_t,
    parts: &'a [Part<'a>],
}

impl ForeignWork<'_> {
    /// Returns CUDA's handle of the stream: the driver's `CUstream` is the same.
    pub fn stream(&self) -> cudaStream_t {
        self.stream
    }

    /// Returns the address of the first element of a buffer of the uses, for kernels; values do not count. Pinned memory that is not mapped for the
    /// device has the host's address.
    ///
    /// # Panics
    ///
    /// If there are not as many buffers.
    pub fn pointer<T>(&self, index: usize) -> *mut T {
        self.parts[index].kernel_address().cast()
    }
}

debug!([] ForeignWork<'_>, "ForeignWork", |it| stream: it.stream, buffers: it.parts.len());

impl Stream {
    /// Enqueues work of another library on this stream: a cuBLAS call, a kernel of cudarc. The library orders and tracks it like a launch.
    ///
    /// `uses` are the buffers that the work uses, as for a [launch](crate::Kernel::launch). `work` gets the stream and the addresses, and
    /// enqueues. Its result is returned.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::UnifiedBuffer;
    ///
    /// # unsafe fn their_gemm(_: cuda_um::sys::cudaStream_t, _: *const f32, _: *mut f32) -> Result<(), String> { Ok(()) }
    /// let stream = device.create_stream()?;
    /// let a = UnifiedBuffer::<f32>::zeroed(&device, 100)?;
    /// let mut b = UnifiedBuffer::<f32>::zeroed(&device, 100)?;
    /// // SAFETY: their function reads 100 elements of the first buffer and writes 100 of the second, on this stream.
    /// let done: Result<(), String> = unsafe {
    ///     stream.enqueue_foreign((&a, &mut b), |work| their_gemm(work.stream(), work.pointer(0), work.pointer(1)))?
    /// };
    /// # done.unwrap();
    /// assert_eq!(b.host()?[0], 0.0); // waits for their work
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// As for a [launch](crate::Kernel::launch): what comes later is ordered after all work that is on this stream when `work` returns, also if it
    /// returns an error or panics.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::RuntimeMismatch`](crate::Error::RuntimeMismatch), and the errors of
    /// `cudaStreamWaitEvent`: then `work` is not called. On a device without concurrent managed access it is [`Error::Busy`](crate::Error::Busy)
    /// while host guards of managed memory live, and so are guards that `work` requests.
    ///
    /// # Safety
    ///
    /// - The work stays within the buffers, and writes only those that are passed by `&mut`.
    /// - It is enqueued on this stream, or on streams that are ordered with it: after it, and before its end when `work` returns. No work
    ///   uses the addresses afterwards.
    /// - In a capture ([`Stream::capture`]) all of this holds for each launch of the graph.
    /// - The work can reach the memory from its device: the current device is the caller's.
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    pub unsafe fn enqueue_foreign<R>(
        &self,
        uses: impl KernelArgs,
        work: impl FnOnce(&ForeignWork<'_>) -> R,
    ) -> Result<R> {
        uses.collect(|uses| {
            let (parts, own) = (uses.parts(), LazyCell::new(|| self.device()));
            let device = parts.first().map_or_else(|| &*own, Part::device);
            self.submit(&Op::new(What::Foreign, device, parts), |on| {
                let api = self.inner().api();
                api.run_foreign(|| {
                    work(&ForeignWork {
                        stream: on.raw,
                        parts,
                    })
                })
            })
        })
    }
}
