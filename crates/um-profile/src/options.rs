//! Limits of a profiler.

/// Limits of the records that a [`Profiler`](super::Profiler) stores. It counts records above a limit, and continues.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env()?.table())?;
/// use um_profile::{ProfileOptions, Profiler};
///
/// let small = ProfileOptions::default().max_records(10_000).max_operations(1_000).cupti_buffers(2);
/// let profiler = Profiler::start_with(&runtime, small)?; // or `start`
/// // … use managed memory …
/// println!("{} records", profiler.stop()?.records.len());
/// # Ok(())
/// # }
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
    /// Sets the largest number of records of managed memory, about 64 bytes each. The default is 1,000,000.
    /// [`Trace::dropped_records`](cuda_um_trace::Trace::dropped_records) counts the others.
    #[must_use]
    pub fn max_records(mut self, count: usize) -> Self {
        self.max_records = count;
        self
    }

    /// Sets the largest number of operations, of buffers, and of runs of kernels (each). The default is 1,000,000.
    /// [`Trace::dropped_operations`](cuda_um_trace::Trace::dropped_operations) counts the others.
    #[must_use]
    pub fn max_operations(mut self, count: usize) -> Self {
        self.max_operations = count;
        self
    }

    /// Sets the largest number of buffers, of 256 KiB each, that CUPTI may hold at one time. The default is 64. If there are too few, CUPTI
    /// drops records, and [`Trace::dropped_records`](cuda_um_trace::Trace::dropped_records) counts them.
    #[must_use]
    pub fn cupti_buffers(mut self, count: usize) -> Self {
        self.max_buffers = count;
        self
    }
}
