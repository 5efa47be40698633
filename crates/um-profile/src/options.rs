//! Limits of a profiler.

/// Limits of the records that a [`Profiler`](super::Profiler) stores. It counts records above a limit, and continues.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env()?.table())?;
/// use um_profile::{ProfileOptions, Profiler};
///
/// let small = ProfileOptions::default().max_records(10_000);
/// let profiler = Profiler::start_with(&runtime, small)?; // or `start`
/// // … use managed memory …
/// println!("{} records", profiler.stop()?.records.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    pub(crate) max_records: usize,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self {
            max_records: 1_000_000,
        }
    }
}

impl ProfileOptions {
    /// Sets the largest number of records of managed memory, about 64 bytes each, of operations and of runs of kernels (each). The default is
    /// 1,000,000. [`Trace::dropped_records`](cuda_um_trace::Trace::dropped_records) and
    /// [`Trace::dropped_operations`](cuda_um_trace::Trace::dropped_operations) count the others.
    #[must_use]
    pub fn max_records(mut self, count: usize) -> Self {
        self.max_records = count;
        self
    }
}
