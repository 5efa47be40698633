//! The function that users call.

use um_backend::cuda_um::Stream;

use crate::error::Result;
use crate::request::WorkingSet;
use crate::set::{Requests, acquire};

/// Brings all buffers of a set into the arena, and returns their guards in the same shape: the arguments of the step's kernels.
///
/// Buffers that are there already cost no transfer. Others take free slots, or those of the buffers that were not used for the longest time.
/// When the last sets repeat the sets before them, the arena expects the same order again: then buffers leave whose next use is far away,
/// and others are transferred before their set. A set that differs ends this. Changed buffers are written back before they leave; the
/// contents of unchanged ones are dropped.
///
/// # Ordering
/// Transfers are enqueued on streams of the arena, after the earlier work on the slots and the buffers. The call does not wait for them:
/// kernels that use the guards are ordered after them, on the device. A buffer with a home in a file is read before this returns. The call
/// waits while guards of other threads are in the way.
///
/// # Errors
/// Before any transfer: [`Error::OverBudget`](crate::Error::OverBudget) with both numbers if the set needs more than the budget;
/// [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Twice`](crate::Error::Twice), [`Error::Arenas`](crate::Error::Arenas);
/// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) if this thread holds guards and would wait;
/// [`Capture`](um_backend::cuda_um::Error::Capture) while this thread captures a graph;
/// [`RuntimeMismatch`](um_backend::cuda_um::Error::RuntimeMismatch) for a stream of another runtime. Errors of CUDA and of files: no guard is
/// held then, and the contents of all buffers are as before.
pub fn working_set<'a, S: WorkingSet<'a>>(stream: &Stream, set: S) -> Result<S::Guards> {
    let mut requests = Requests::default();
    set.request(&mut requests)?;
    let (shared, list) = (requests.shared()?, &requests.list);
    shared.check_stream(stream)?;
    let held = acquire(shared, list, "working_set")?;
    Ok(set.guards(&mut held.into_iter()))
}
