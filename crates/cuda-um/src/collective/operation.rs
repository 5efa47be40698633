//! One rank's operation.

use crate::DeviceCopy;
use crate::buffer::any::{Memory, MemoryMut};
use crate::buffer::view::{View, ViewMut};
use crate::collective::communicator::Communicator;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::driver::nccl::What;
use crate::error::{Error, Result};
use cuda_um_sys::{ncclDataType_t, ncclRedOp_t};
use smallvec::SmallVec;

/// How the elements of the ranks are reduced to one. The order of the ranks is not specified, so sums of floating-point numbers may differ in
/// their last bits from run to run.
#[doc(alias = "ncclRedOp_t")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
// In the order of NCCL's numbers.
pub enum Reduce {
    /// The sum; integers wrap.
    Sum,
    /// The product; integers wrap.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The sum divided by the number of ranks.
    Average,
}

/// An element that NCCL reduces: `i8`, `u8`, `i32`, `u32`, `i64`, `u64`, `f32`, `f64`, and with the feature `half` `f16` and `bf16`. Other
/// operations move elements of any type.
#[doc(alias = "ncclDataType_t")]
pub trait Number: DeviceCopy + sealed::Typed {}

mod sealed {
    pub trait Typed {
        #[doc(hidden)]
        const TYPE: super::ncclDataType_t;
    }
}

macro_rules! numbers {
    ($($type:ty: $name:ident,)*) => {$(
        impl Number for $type {}
        impl sealed::Typed for $type {
            const TYPE: ncclDataType_t = ncclDataType_t::$name;
        }
    )*};
}

numbers! {
    i8: ncclInt8,
    u8: ncclUint8,
    i32: ncclInt32,
    u32: ncclUint32,
    i64: ncclInt64,
    u64: ncclUint64,
    f32: ncclFloat32,
    f64: ncclFloat64,
}

#[cfg(feature = "half")]
numbers! {
    half::f16: ncclFloat16,
    half::bf16: ncclBfloat16,
}

/// One rank's part of a collective operation, which borrows its buffers. Nothing happens before [`run`](Self::run) or
/// [`group`](fn@crate::collective::group).
#[must_use = "run it, or pass it to `group`"]
#[derive(Debug)]
pub struct Operation<'a> {
    pub(super) communicator: &'a Communicator,
    pub(super) what: What,
    /// Elements of this type: of the source, or of the smaller side.
    pub(super) count: usize,
    pub(super) datatype: ncclDataType_t,
    pub(super) source: Option<View<'a, u8>>,
    pub(super) target: Option<ViewMut<'a, u8>>,
    /// Where the source is in the target, in bytes, if there is no other one.
    pub(super) in_place: usize,
    pub(super) stream: Option<&'a Stream>,
    pub(super) refusal: Option<Error>,
}

impl Communicator {
    /// An operation that moves elements of any type.
    fn moves<'a, T: DeviceCopy>(
        &'a self,
        what: What,
        source: Option<View<'a, T>>,
        target: Option<ViewMut<'a, T>>,
    ) -> Operation<'a> {
        let (source_len, target_len) = (
            source.as_ref().map(View::len),
            target.as_ref().map(ViewMut::len),
        );
        let (rank, ranks) = (self.rank(), self.ranks());
        // The side of `whole` has `parts` times the elements of `part`.
        let (part, whole, parts) = match what {
            What::AllGather => (source_len, target_len, ranks),
            What::ReduceScatter(_) => (target_len, source_len, ranks),
            _ => (source_len, target_len, 1),
        };
        let count = part.unwrap_or(whole.unwrap_or(0) / parts);
        let expected = count.saturating_mul(parts);
        let found = whole.unwrap_or(expected);
        let length = (expected != found).then(|| Error::LengthMismatch {
            what: what.name(),
            expected,
            found,
        });
        let other = match what {
            What::Broadcast { root } if root >= ranks => Some(("the root", root)),
            What::Send { to: other } | What::Receive { from: other }
                if other >= ranks || other == rank =>
            {
                Some(("the other rank", other))
            }
            _ => None,
        };
        let other = other.map(|(what, other)| Error::InvalidArgument {
            what,
            value: other.to_string(),
            reason: format!("there are {ranks} ranks, and this one is {rank}"),
        });
        Operation {
            communicator: self,
            what,
            count: count * size_of::<T>(),
            datatype: ncclDataType_t::ncclUint8,
            source: source.map(View::into_bytes),
            target: target.map(ViewMut::into_bytes),
            in_place: match what {
                What::AllGather => rank * count * size_of::<T>(),
                _ => 0,
            },
            stream: None,
            refusal: length.or(other),
        }
    }

    /// An operation with numbers, which NCCL reduces.
    fn reduces<'a, T: Number>(
        &'a self,
        what: fn(ncclRedOp_t) -> What,
        how: Reduce,
        source: Option<View<'a, T>>,
        target: ViewMut<'a, T>,
    ) -> Operation<'a> {
        let operation = self.moves(what(ncclRedOp_t(how as u32)), source, Some(target));
        Operation {
            count: operation.count / size_of::<T>(),
            datatype: T::TYPE,
            ..operation
        }
    }

    /// Copies the elements of the rank `root` to the buffers of all other ranks, which have the same length.
    #[doc(alias = "ncclBroadcast")]
    pub fn broadcast<'a, T: DeviceCopy>(
        &'a self,
        buffer: &'a mut impl MemoryMut<T>,
        root: usize,
    ) -> Operation<'a> {
        self.moves(What::Broadcast { root }, None, Some(buffer.to_view_mut()))
    }

    /// Copies the elements of all ranks, in their order, to the targets of all ranks. A target has the elements of all sources, which have the
    /// same length.
    #[doc(alias = "ncclAllGather")]
    pub fn all_gather<'a, T: DeviceCopy>(
        &'a self,
        source: &'a impl Memory<T>,
        target: &'a mut impl MemoryMut<T>,
    ) -> Operation<'a> {
        let (source, target) = (Some(source.to_view()), Some(target.to_view_mut()));
        self.moves(What::AllGather, source, target)
    }

    /// Does the same as [`all_gather`](Self::all_gather): the source is this rank's part of the target.
    #[doc(alias = "ncclAllGather")]
    pub fn all_gather_in_place<'a, T: DeviceCopy>(
        &'a self,
        target: &'a mut impl MemoryMut<T>,
    ) -> Operation<'a> {
        self.moves(What::AllGather, None, Some(target.to_view_mut()))
    }

    /// Copies elements to another rank, which receives as many.
    #[doc(alias = "ncclSend")]
    pub fn send<'a, T: DeviceCopy>(
        &'a self,
        source: &'a impl Memory<T>,
        to: usize,
    ) -> Operation<'a> {
        self.moves(What::Send { to }, Some(source.to_view()), None)
    }

    /// Copies elements from another rank, which sends as many.
    #[doc(alias = "ncclRecv")]
    pub fn receive<'a, T: DeviceCopy>(
        &'a self,
        target: &'a mut impl MemoryMut<T>,
        from: usize,
    ) -> Operation<'a> {
        self.moves(What::Receive { from }, None, Some(target.to_view_mut()))
    }

    /// Reduces the elements of all ranks, and copies the results to the targets of all ranks.
    #[doc(alias = "ncclAllReduce")]
    pub fn all_reduce<'a, T: Number>(
        &'a self,
        source: &'a impl Memory<T>,
        target: &'a mut impl MemoryMut<T>,
        how: Reduce,
    ) -> Operation<'a> {
        let (source, target) = (Some(source.to_view()), target.to_view_mut());
        self.reduces(What::AllReduce, how, source, target)
    }

    /// Does the same as [`all_reduce`](Self::all_reduce), with the results in place of the elements.
    #[doc(alias = "ncclAllReduce")]
    pub fn all_reduce_in_place<'a, T: Number>(
        &'a self,
        buffer: &'a mut impl MemoryMut<T>,
        how: Reduce,
    ) -> Operation<'a> {
        self.reduces(What::AllReduce, how, None, buffer.to_view_mut())
    }

    /// Reduces the elements of all ranks, and copies to each rank its part of the results: a source has the elements of all targets, which have
    /// the same length.
    #[doc(alias = "ncclReduceScatter")]
    pub fn reduce_scatter<'a, T: Number>(
        &'a self,
        source: &'a impl Memory<T>,
        target: &'a mut impl MemoryMut<T>,
        how: Reduce,
    ) -> Operation<'a> {
        let (source, target) = (Some(source.to_view()), target.to_view_mut());
        self.reduces(What::ReduceScatter, how, source, target)
    }
}

impl<'a> Operation<'a> {
    /// Runs on this stream of the rank's device, instead of on the library's stream.
    pub fn on(self, stream: &'a Stream) -> Self {
        let stream = Some(stream);
        Self { stream, ..self }
    }

    /// Runs this operation alone. The other ranks run theirs on other threads or in other processes; for several ranks on one thread there is
    /// [`group`](fn@crate::collective::group), which has the ordering and the errors.
    ///
    /// # Errors
    ///
    /// The errors of [`group`](fn@crate::collective::group).
    pub fn run(self) -> Result<()> {
        super::group([self])
    }

    pub(super) fn views(&self) -> impl Iterator<Item = View<'_, u8>> {
        let target = self.target.as_ref().map(ViewMut::as_view);
        self.source.into_iter().chain(target)
    }

    pub(super) fn parts(&self) -> SmallVec<[Part<'_>; 2]> {
        let source = self.source.iter().map(|view| view.part(Access::Read));
        let target = self.target.iter().map(|view| view.part(Access::Write));
        source.chain(target).collect()
    }
}
