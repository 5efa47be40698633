//! Groups of operations.
#![allow(unsafe_code, reason = "passes addresses of buffers to NCCL")]

use crate::buffer::view::View;
use crate::collective::operation::Operation;
use crate::context::capture;
use crate::context::enqueue::enqueue_op;
use crate::context::observer;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::driver::nccl::{Call, What};
use crate::error::{Error, Result};
use crate::fork;
use crate::kernel::launch::elsewhere;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The most operations of one group.
const MOST: usize = 512;

/// Runs operations together, of several ranks or several of one rank: NCCL begins them as one, so that they may wait for each other.
///
/// # Ordering
///
/// When this returns, each operation is enqueued on its stream ([`Operation::on`], otherwise the library's stream of the rank's device), after
/// earlier uses of its buffers on any stream that it must not overlap. It ends when those of all ranks have begun. Host guards, later work and
/// the drops of the buffers are ordered after it. Managed buffers are migrated to the rank's device before, on the same stream.
///
/// # Errors
///
/// Before any call: [`Error::LengthMismatch`], [`Error::InvalidArgument`] for a root or rank that there is not, and for ranks of one clique whose
/// operations in this group differ; [`Error::DeviceMismatch`] and [`Error::RuntimeMismatch`] for a stream or memory of another device or
/// runtime, and for communicators of several drivers; [`Error::ReadOnly`]; [`Error::Capture`] in a capture; [`Error::LimitExceeded`] for more
/// than 512 operations; [`Error::Busy`] if another thread uses a communicator. After a later error, [`Error::Collective`] or
/// [`Error::Sticky`], the communicators of the group are aborted.
///
/// ```
/// # let sim = cuda_um_sim::Sim::builder().devices(2).build().unwrap();
/// # let runtime = cuda_um::Runtime::from_table(sim.table())?;
/// use cuda_um::collective::{Communicator, group};
/// use cuda_um::DeviceBuffer;
///
/// let devices = [runtime.device(0)?, runtime.device(1)?];
/// let ranks = Communicator::all(&devices)?;
/// let source = DeviceBuffer::from_slice(&devices[0], &[1u16, 2, 3])?;
/// let mut target = DeviceBuffer::<u16>::zeroed(&devices[1], 3)?;
/// group([ranks[0].send(&source, 1), ranks[1].receive(&mut target, 0)])?;
/// assert_eq!(target.to_vec()?, [1, 2, 3]);
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "ncclGroupStart")]
#[doc(alias = "ncclGroupEnd")]
pub fn group<'a>(operations: impl IntoIterator<Item = Operation<'a>>) -> Result<()> {
    let mut operations: Vec<_> = operations.into_iter().collect();
    if operations.len() > MOST {
        return Err(Error::LimitExceeded {
            what: "the number of operations of a group",
            value: operations.len() as u64,
            limit: MOST as u64,
        });
    }
    if let Some(refusal) = operations.iter_mut().find_map(|it| it.refusal.take()) {
        return Err(refusal);
    }
    check_agreement(&operations)?;
    let checked = operations.iter().map(|it| Ok((it, it.check()?)));
    let mut checked: Vec<_> = checked.collect::<Result<_>>()?;
    // Elements of no rank need no call: all ranks have none.
    checked.retain(|(operation, _)| operation.count > 0);
    let Some((first, _)) = checked.first() else {
        return Ok(());
    };
    let table = |of: &Operation<'_>| Arc::as_ptr(of.communicator.device().runtime().table());
    let mut users = BTreeMap::new();
    for (operation, _) in &checked {
        // The handles of one library mean nothing to another.
        if table(operation) != table(first) {
            let what = "a communicator of the group";
            return Err(Error::RuntimeMismatch { what });
        }
        let communicator = operation.communicator;
        if let Entry::Vacant(new) = users.entry(std::ptr::from_ref(communicator)) {
            let (raw, used) = communicator.begin_use()?;
            new.insert((communicator, raw, used));
        }
    }
    let limits = || users.values().map(|(user, ..)| user.limit);
    let limit = limits().flatten().min();
    if limit.is_some() && limits().any(|limit| limit.is_none()) {
        return Err(Error::InvalidArgument {
            what: "a group",
            value: "communicators with and without a limit".to_owned(),
            reason: "NCCL does not begin them together: run two groups".to_owned(),
        });
    }
    for (operation, stream) in &checked {
        let device = operation.communicator.device();
        // Where it cannot migrate, NCCL's kernel reaches it as it does.
        let mut managed = operation.views().filter(View::is_managed);
        managed.try_for_each(|view| view.prefetch_on(device, stream).map(drop))?;
    }
    let calls = checked.iter().map(|(operation, stream)| {
        let (_, raw, _) = users[&std::ptr::from_ref(operation.communicator)];
        (raw, operation.call(stream))
    });
    let calls: Vec<_> = calls.collect();
    let api = first.communicator.device().api();
    let mut began = false;
    let done = enqueue(&checked, &mut || {
        began = true;
        // SAFETY: the communicators are live, because their handles are taken only in a use; the buffers have the lengths of the calls,
        // are borrowed as the calls use them, and track their uses, so they are neither freed nor used in conflict before the end.
        unsafe { api.nccl_enqueue(&calls, limit) }
    });
    if began && done.is_err() {
        // The failed call has the error; that of an abort has no remedy.
        let each = users.values_mut();
        each.for_each(|(user, _, used)| drop(user.abort_in_use(used)));
    }
    done
}

/// Enqueues the operations, each within the work of the one before: all are ordered before the calls begin, and recorded after.
fn enqueue(
    operations: &[(&Operation<'_>, Stream)],
    calls: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let Some(((operation, stream), rest)) = operations.split_first() else {
        return calls();
    };
    let communicator = operation.communicator;
    enqueue_op(
        observer::What::Graph {
            name: operation.what.name(),
        },
        (communicator.device(), Some(&communicator.in_flight)),
        stream,
        &operation.parts(),
        |_| enqueue(rest, calls),
    )
}

impl Operation<'_> {
    /// Checks the stream and the memory. Returns the stream.
    fn check(&self) -> Result<Stream> {
        fork::check(self.what.name())?;
        let device = self.communicator.device();
        let stream = match self.stream {
            Some(stream) => stream.clone(),
            None => device.default_stream()?,
        };
        if stream.inner().device().identity() != device.state().identity() {
            return Err(elsewhere(&stream, device));
        }
        let parts = self.parts();
        if capture::is_active() {
            let reason = "the ranks of other threads and processes would not be in the graph: do this before or after a launch of the graph";
            capture::refuse("a collective operation", reason, stream.inner(), &parts)?;
        }
        let expected = device.ordinal();
        for (view, part) in self.views().zip(&parts) {
            part.memory.check_kernel_of(device)?;
            part.check_write()?;
            let found = view.device().ordinal();
            // Also with peer access: the kernels of other ranks use the memory, too.
            if view.raw.is_device_memory() && found != expected {
                return Err(Error::DeviceMismatch {
                    what: "a buffer of the operation",
                    expected,
                    found,
                });
            }
        }
        Ok(stream)
    }

    fn call(&self, stream: &Stream) -> Call {
        let parts = self.parts();
        let address =
            |part: Option<&Part<'_>>| part.map_or(std::ptr::null_mut(), Part::kernel_address);
        // A send has no target.
        let target = address(parts.last());
        Call {
            what: self.what,
            source: match self.source {
                Some(_) => address(parts.first()),
                None => target.wrapping_byte_add(self.in_place),
            },
            target,
            count: self.count,
            datatype: self.datatype,
            stream: stream.as_raw(),
        }
    }
}

/// Which ranks of which clique meet in an operation: all, or two.
fn meeting(operation: &Operation<'_>) -> ([u8; 128], Option<(usize, usize)>) {
    let rank = operation.communicator.rank();
    let between = match operation.what {
        What::Send { to } => Some((rank, to)),
        What::Receive { from } => Some((from, rank)),
        _ => None,
    };
    (operation.communicator.clique().to_bytes(), between)
}

/// Refuses operations of several ranks of one clique that differ: the n-th of one rank meets the n-th of the others, and none has more.
fn check_agreement(operations: &[Operation<'_>]) -> Result<()> {
    let mut meetings = BTreeMap::<_, BTreeMap<usize, Vec<&Operation<'_>>>>::new();
    for operation in operations {
        let ranks = meetings.entry(meeting(operation)).or_default();
        let rank = operation.communicator.rank();
        ranks.entry(rank).or_default().push(operation);
    }
    for ((_, between), ranks) in &meetings {
        let common =
            |it: &&Operation<'_>| (between.is_none().then_some(it.what), it.count, it.datatype);
        let words = |rank: &usize, it: Option<&&Operation<'_>>| match it {
            Some(it) => format!(
                "rank {rank}: {:?} of {} elements of the type {:?}",
                it.what, it.count, it.datatype
            ),
            None => format!("rank {rank}: no operation"),
        };
        let mut others = ranks.iter();
        let Some((first_rank, first)) = others.next() else {
            continue;
        };
        for (rank, other) in others {
            // The other side of a transfer may be in another group.
            let number = match between {
                Some(_) => first.len().min(other.len()),
                None => first.len().max(other.len()),
            };
            let mut pairs = (0..number).map(|n| (first.get(n), other.get(n)));
            if let Some((met, it)) = pairs.find(|(a, b)| a.map(common) != b.map(common)) {
                return Err(Error::InvalidArgument {
                    what: "an operation of the group",
                    value: words(rank, it),
                    reason: format!(
                        "it meets that of {}: all ranks make the same calls",
                        words(first_rank, met)
                    ),
                });
            }
        }
    }
    Ok(())
}
