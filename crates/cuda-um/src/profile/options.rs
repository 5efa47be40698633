//! How much a profiler keeps.

/// How much a [`Profiler`](super::Profiler) keeps; what is over is counted, and the profile goes on.
///
/// ```
/// let small = cuda_um::profile::ProfileOptions::default().max_records(10_000);
/// assert_ne!(small, cuda_um::profile::ProfileOptions::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    pub(crate) max_records: usize,
    pub(crate) max_operations: usize,
    pub(crate) max_buffers: usize,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self {
            max_records: 1_000_000,
            max_operations: 1_000_000,
            max_buffers: 64,
        }
    }
}

impl ProfileOptions {
    /// Sets how many records of managed memory are kept, of some 64 bytes each. The default is 1,000,000. Those over are counted in
    /// [`Trace::dropped_records`](cuda_um_trace::Trace::dropped_records).
    #[must_use]
    pub fn max_records(mut self, count: usize) -> Self {
        self.max_records = count;
        self
    }

    /// Sets how many operations are kept, and how many buffers, and how many runs of kernels. The default is 1,000,000. Those over are
    /// counted in [`Trace::dropped_operations`](cuda_um_trace::Trace::dropped_operations).
    #[must_use]
    pub fn max_operations(mut self, count: usize) -> Self {
        self.max_operations = count;
        self
    }

    /// Sets how many buffers of 256 KiB CUPTI may hold at one time. The default is 64. With too few it drops records, which are
    /// counted in [`Trace::dropped_records`](cuda_um_trace::Trace::dropped_records).
    #[must_use]
    pub fn cupti_buffers(mut self, count: usize) -> Self {
        self.max_buffers = count;
        self
    }
}
