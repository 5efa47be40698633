//! What an implementation broke.

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
    /// Length, capacity, dtype, device and memory are what they were made to be, and stay so.
    Properties,
    /// What was copied from the host comes back.
    RoundTrip,
    /// The same for a part of the buffer.
    RoundTripAt,
    /// A length that does not match is the typed error that names both, and has changed nothing.
    LengthsMustMatch,
    /// A range outside of the buffer is the typed error that names both, and has changed nothing.
    RangesMustBeWithin,
    /// `fill` sets every element.
    Fill,
    /// `set_zero` sets every element to zero.
    SetZero,
    /// `clone_empty` gives the same kind on the same device, with zeros and the length that was asked for.
    CloneEmpty,
    /// `as_any` and `as_any_mut` are the buffer itself.
    Downcasts,
    /// Every call sees the effect of every earlier one.
    InOrder,
    /// A buffer works on whichever thread it is, and can be read by several.
    OtherThreads,
    /// All elements of another buffer can be copied.
    CopyWhole,
    /// A range of another buffer can be copied, and nothing else changes.
    CopyRange,
    /// The source of a copy may be written or dropped at once.
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
            Self::Properties => "length, capacity, dtype, device and memory stay what they are",
            Self::RoundTrip => "what was copied from the host comes back",
            Self::RoundTripAt => "what was copied to a part comes back",
            Self::LengthsMustMatch => "a length that does not match is refused",
            Self::RangesMustBeWithin => "a range outside of the buffer is refused",
            Self::Fill => "fill sets every element",
            Self::SetZero => "set_zero sets every element to zero",
            Self::CloneEmpty => "clone_empty gives an empty buffer of the same kind",
            Self::Downcasts => "as_any is the buffer itself",
            Self::InOrder => "every call sees the effect of every earlier one",
            Self::OtherThreads => "a buffer works on any thread",
            Self::CopyWhole => "a whole buffer can be copied",
            Self::CopyRange => "a range of a buffer can be copied",
            Self::SourceIsFree => "the source of a copy may be written or dropped at once",
            Self::PairBounds => "copies between buffers check lengths and ranges first",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A rule that an implementation broke.
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

    /// What was done, what was expected, and what there was instead.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The error that a call returned which should have worked.
    #[must_use]
    pub fn cause(&self) -> Option<&CudaError> {
        self.cause.as_deref()
    }
}
