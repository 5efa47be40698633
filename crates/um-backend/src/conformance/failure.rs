//! Rules, and failures to keep them.

use std::fmt;

use crate::error::CudaError;

/// The outcome of a rule.
pub type Verdict<R = ()> = std::result::Result<R, Failure>;

/// A rule of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// A new buffer holds zeros.
    NewHoldsZeros,
    /// Length, capacity, dtype, device and memory are correct, and do not change.
    Properties,
    /// Elements that were copied from the host can be read back.
    RoundTrip,
    /// Elements that were copied to a range can be read back.
    RoundTripAt,
    /// A copy with another length fails with an error that has both lengths, and changes nothing.
    LengthsMustMatch,
    /// A copy of a range outside the buffer fails with an error that has the range and the length, and changes nothing.
    RangesMustBeWithin,
    /// `fill` sets every element.
    Fill,
    /// `set_zero` sets every element to zero.
    SetZero,
    /// `clone_empty` returns a buffer of the same kind on the same device, with zeros and the requested length.
    CloneEmpty,
    /// `fill_range` sets the elements of a range alone.
    FillRange,
    /// `copy_within` copies ranges that are apart and ranges that overlap.
    CopyWithin,
    /// `try_clone` returns a buffer of the same kind with the same elements, which is independent.
    TryClone,
    /// `host` has the elements, and what is written through `host_mut` is in the buffer.
    HostAccess,
    /// `write_to` writes the bytes of a range, and `read_from` reads them.
    Files,
    /// Operations on a stream of the caller's choice keep the order of the buffer.
    OnStream,
    /// Prefetches and advice for ranges change no element.
    Hints,
    /// `as_any` and `as_any_mut` return the buffer itself.
    Downcasts,
    /// Every call sees the effect of every earlier one.
    InOrder,
    /// A buffer works on any thread, and several threads can read it.
    OtherThreads,
    /// All elements of another buffer can be copied.
    CopyWhole,
    /// A range of another buffer can be copied, and no other element changes.
    CopyRange,
    /// The caller may write or drop the source of a copy at once.
    SourceIsFree,
    /// Copies between buffers check lengths and ranges first.
    PairBounds,
}

impl Rule {
    /// The rule in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NewHoldsZeros => "a new buffer holds zeros",
            Self::Properties => "length, capacity, dtype, device and memory do not change",
            Self::RoundTrip => "copied elements can be read back",
            Self::RoundTripAt => "elements copied to a range can be read back",
            Self::LengthsMustMatch => "a copy with another length fails",
            Self::RangesMustBeWithin => "a copy of a range outside the buffer fails",
            Self::Fill => "fill sets every element",
            Self::SetZero => "set_zero sets every element to zero",
            Self::CloneEmpty => "clone_empty returns a buffer of the same kind with zeros",
            Self::FillRange => "fill_range sets the elements of a range alone",
            Self::CopyWithin => "copy_within copies as a slice does",
            Self::TryClone => "try_clone returns an independent copy of the same kind",
            Self::HostAccess => "host and host_mut are the elements",
            Self::Files => "write_to writes the bytes of a range, and read_from reads them",
            Self::OnStream => "operations on any stream keep the order of the buffer",
            Self::Hints => "prefetches and advice change no element",
            Self::Downcasts => "as_any returns the buffer itself",
            Self::InOrder => "every call sees the effect of every earlier one",
            Self::OtherThreads => "a buffer works on any thread",
            Self::CopyWhole => "a whole buffer can be copied",
            Self::CopyRange => "a range of a buffer can be copied",
            Self::SourceIsFree => "the source of a copy can be written or dropped at once",
            Self::PairBounds => "copies between buffers check lengths and ranges first",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A rule that an implementation does not keep.
#[derive(Debug, thiserror::Error)]
#[error("broken: {rule}: {what}")]
pub struct Failure {
    pub(super) rule: Rule,
    pub(super) what: String,
    #[source]
    pub(super) cause: Option<Box<CudaError>>,
}

impl Failure {
    /// The rule.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// The call, the expected result, and the found result.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The unexpected error of a call.
    #[must_use]
    pub fn cause(&self) -> Option<&CudaError> {
        self.cause.as_deref()
    }
}
