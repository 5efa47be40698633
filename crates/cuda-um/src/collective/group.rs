//! Groups of operations.
#![allow(unsafe_code, reason = "passes addresses of buffers to NCCL")]

use crate::buffer::view::View;
use crate::collective::communicator::{Communicator, Used};
use crate::collective::operation::Operation;
use crate::context::capture;
use crate::context::observer;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::driver::nccl::{Call, NcclComm, What};
use crate::error::{Error, Result};
use smallvec::SmallVec;
use std::collections::HashMap;
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
    let prepared = operations.iter().map(Prepared::of);
    let prepared: Vec<_> = prepared.collect::<Result<_>>()?;
    // Elements of no rank need no call: all ranks have none.
    let prepared: Vec<_> = prepared
        .into_iter()
        .filter(|it| it.operation.count > 0)
        .collect();
    let Some(first) = prepared.first() else {
        return Ok(());
    };
    let mut users: Vec<(&Communicator, (NcclComm, Used<'_>))> = Vec::new();
    let table = |of: &Communicator| Arc::as_ptr(of.device().runtime().table());
    for communicator in prepared.iter().map(|it| it.operation.communicator) {
        // The handles of one library mean nothing to another.
        if table(communicator) != table(first.operation.communicator) {
            let what = "a communicator of the group";
            return Err(Error::RuntimeMismatch { what });
        }
        if !users.iter().any(|(it, _)| std::ptr::eq(*it, communicator)) {
            users.push((communicator, communicator.begin_use()?));
        }
    }
    let limit = users.iter().filter_map(|(it, _)| it.limit).min();
    if limit.is_some() && users.iter().any(|(it, _)| it.limit.is_none()) {
        return Err(Error::InvalidArgument {
            what: "a group",
            value: "communicators with and without a limit".to_owned(),
            reason: "NCCL does not begin them together: run two groups".to_owned(),
        });
    }
    prepared.iter().try_for_each(Prepared::migrate)?;
    let raw = |communicator: &Communicator| {
        let mut users = users.iter();
        users.find_map(|(it, (raw, _))| std::ptr::eq(*it, communicator).then_some(*raw))
    };
    let calls = prepared.iter().filter_map(|it| {
        let communicator = it.operation.communicator;
        Some((raw(communicator)?, it.call()))
    });
    let calls: Vec<(NcclComm, Call)> = calls.collect();
    let api = first.operation.communicator.device().api();
    let mut began = false;
    let done = enqueue(&prepared, &mut || {
        began = true;
        // SAFETY: the communicators are live, because their handles are taken only in a use; the buffers have the lengths of the calls,
        // are borrowed as the calls use them, and track their uses, so they are neither freed nor used in conflict before the end.
        unsafe { api.nccl_enqueue(&calls, limit) }
    });
    if began && done.is_err() {
        // The failed call has the error; that of an abort has no remedy.
        users.iter().for_each(|(it, _)| drop(it.abort_in_use()));
    }
    done
}

/// Enqueues the operations, each within the work of the one before: all are ordered before the calls begin, and recorded after.
fn enqueue(operations: &[Prepared<'_>], calls: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let Some((first, rest)) = operations.split_first() else {
        return calls();
    };
    let communicator = first.operation.communicator;
    let used = (communicator.device(), Some(&communicator.in_flight));
    observer::Started::now(communicator.device()).enqueue(
        observer::What::Launch(first.operation.what.name()),
        used,
        &first.stream,
        &first.parts,
        |_| enqueue(rest, calls),
    )
}

/// An operation that was checked, with its stream.
struct Prepared<'a> {
    operation: &'a Operation<'a>,
    stream: Stream,
    parts: SmallVec<[Part<'a>; 2]>,
}

impl<'a> Prepared<'a> {
    fn of(operation: &'a Operation<'_>) -> Result<Self> {
        let device = operation.communicator.device();
        let stream = match operation.stream {
            Some(stream) => stream.clone(),
            None => device.default_stream()?,
        };
        stream.check_runtime(device, "the stream")?;
        let (expected, found) = (device.ordinal(), stream.inner().ordinal());
        if expected != found {
            return Err(Error::DeviceMismatch {
                what: "the stream",
                expected,
                found,
            });
        }
        let parts = operation.parts();
        if capture::is_active() {
            let reason = "the ranks of other threads and processes would not be in the graph: do this before or after a launch of the graph";
            capture::refuse("a collective operation", reason, stream.inner(), &parts)?;
        }
        for part in &parts {
            stream.check_runtime(part.memory.device(), "the buffer")?;
            part.check_write()?;
            part.memory.check_kernel_of(device)?;
        }
        // Also with peer access: the kernels of other ranks use the memory, too.
        let is_far = |view: &View<'_, u8>| {
            view.raw.is_device_memory() && view.device().ordinal() != expected
        };
        if let Some(far) = operation.views().find(is_far) {
            return Err(Error::DeviceMismatch {
                what: "a buffer of the operation",
                expected,
                found: far.device().ordinal(),
            });
        }
        Ok(Self {
            operation,
            stream,
            parts,
        })
    }

    /// Brings managed memory to the device. Where it cannot migrate, NCCL's kernel reaches it as it does.
    fn migrate(&self) -> Result<()> {
        let operation = self.operation;
        let mut managed = operation.views().filter(|view| view.is_managed());
        managed.try_for_each(|view| {
            let device = operation.communicator.device();
            view.prefetch_on(device, &self.stream).map(drop)
        })
    }

    fn call(&self) -> Call {
        let Operation {
            what,
            count,
            datatype,
            in_place,
            ref source,
            ref target,
            ..
        } = *self.operation;
        let mut addresses = self.parts.iter().map(Part::kernel_address);
        let from = source.as_ref().and_then(|_| addresses.next());
        let to = target.as_ref().and_then(|_| addresses.next());
        let own = to.map(|to| to.wrapping_byte_add(in_place));
        Call {
            what,
            source: from.or(own).unwrap_or(std::ptr::null_mut()),
            target: to.unwrap_or(std::ptr::null_mut()),
            count,
            datatype,
            stream: self.stream.as_raw(),
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
    let common = |it: &Operation<'_>| {
        let is_of_all = meeting(it).1.is_none();
        (is_of_all.then_some(it.what), it.count, it.datatype)
    };
    let words = |it: &Operation<'_>| {
        let (rank, count) = (it.communicator.rank(), it.count);
        format!(
            "rank {rank}: {:?} of {count} elements of the type {:?}",
            it.what, it.datatype
        )
    };
    let (mut counts, mut firsts) = (HashMap::new(), HashMap::new());
    for operation in operations {
        let meeting = meeting(operation);
        let count = counts.entry((meeting, operation.communicator.rank()));
        let count = *count.and_modify(|count| *count += 1).or_insert(1usize);
        let first = *firsts.entry((meeting, count)).or_insert(operation);
        if common(first) != common(operation) {
            return Err(Error::InvalidArgument {
                what: "an operation of the group",
                value: words(operation),
                reason: format!(
                    "it meets that of {}: all ranks make the same calls",
                    words(first)
                ),
            });
        }
    }
    let of_all = |it: &&Operation<'_>| meeting(it).1.is_none();
    let number = |of: &Operation<'_>| {
        let is_same = |it: &&Operation<'_>| std::ptr::eq(it.communicator, of.communicator);
        operations.iter().filter(of_all).filter(is_same).count()
    };
    for operation in operations.iter().filter(of_all) {
        let mut of_clique = operations
            .iter()
            .filter(|it| meeting(it) == meeting(operation));
        let first = of_clique.next().unwrap_or(operation);
        if number(first) != number(operation) {
            let words = |it| format!("{} of rank {}", number(it), it.communicator.rank());
            return Err(Error::InvalidArgument {
                what: "the number of operations of all ranks in a group",
                value: words(operation),
                reason: format!("there are {}: all ranks make the same calls", words(first)),
            });
        }
    }
    Ok(())
}
