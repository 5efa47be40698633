//! Rules, failures to keep them, and the checks that the rules share.

use std::fmt::{self, Debug};

use super::sample::{sample, samples};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};

/// The outcome of a rule.
pub type Verdict<R = ()> = std::result::Result<R, Failure>;

macro_rules! rules {
    ($($rule:ident = $words:literal;)*) => {
        /// A rule of the contract.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = concat!($words, ".")] $rule,)*
        }

        impl fmt::Display for Rule {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Self::$rule => $words,)*
                })
            }
        }
    };
}

rules! {
    NewHoldsZeros = "a new buffer holds zeros";
    Properties = "length, capacity, dtype, device, memory and type are correct, and do not change";
    Operations = "each operation on each range has the effect that it has on a vector";
    InOrder = "every call sees the effect of every earlier one";
    Refusals = "a length or a range that does not fit is an error with the values, and changes nothing";
    Clones = "clones are of the same kind on the same device, and are independent";
    Threads = "a buffer works on any thread, and several threads can read it";
    Pairs = "copies between implementations have the elements, and the source is free at once";
}

impl Rule {
    pub(super) fn holds(self, holds: bool, what: impl FnOnce() -> String) -> Verdict {
        match holds {
            true => Ok(()),
            false => Err(Failure {
                rule: self,
                what: what(),
                cause: None,
            }),
        }
    }

    pub(super) fn same<V: PartialEq + Debug>(self, what: &str, found: V, expected: V) -> Verdict {
        self.holds(found == expected, || {
            format!("{what}: {found:?} instead of {expected:?}")
        })
    }

    pub(super) fn works<R>(self, call: &str, result: Result<R>) -> Verdict<R> {
        result.map_err(|error| Failure {
            rule: self,
            what: format!("{call} failed: {error}"),
            cause: Some(Box::new(error)),
        })
    }

    pub(super) fn has<T: Element>(
        self,
        buffer: &dyn Buffer<T>,
        expected: &[T],
        when: &str,
    ) -> Verdict {
        let mut found = vec![sample(977); buffer.len()];
        self.works("copy_to_host", buffer.copy_to_host(&mut found))?;
        self.equal(&found, expected, when)
    }

    pub(super) fn equal<T: Element>(self, found: &[T], expected: &[T], when: &str) -> Verdict {
        let lens = (found.len(), expected.len());
        self.same(&format!("number of elements {when}"), lens.0, lens.1)?;
        let different = found.iter().zip(expected).position(|(a, b)| a != b);
        self.holds(different.is_none(), || {
            let at = different.unwrap_or_default();
            let (found, expected, len) = (found[at], expected[at], found.len());
            format!("{when}, element {at} of {len} is {found:?} instead of {expected:?}")
        })
    }

    /// Requires that a call fails with an error that `expected` accepts, and leaves the elements, which are `samples(1, …)`.
    pub(super) fn refused<T: Element>(
        self,
        call: &str,
        buffer: &mut dyn Buffer<T>,
        run: impl FnOnce(&mut dyn Buffer<T>) -> Result<()>,
        expected: impl FnOnce(&CudaError) -> bool,
    ) -> Verdict {
        let len = buffer.len();
        match run(buffer) {
            Err(error) if expected(&error) => {
                self.has(buffer, &samples(1, len), &format!("after {call}"))
            }
            Err(error) => Err(Failure {
                rule: self,
                what: format!("{call} of {len} elements failed with another error: {error:?}"),
                cause: Some(Box::new(error)),
            }),
            Ok(()) => self.holds(false, || {
                format!("{call} of {len} elements was not refused")
            }),
        }
    }
}

/// A rule that an implementation does not keep.
#[derive(Debug, thiserror::Error)]
#[error("broken: {rule}: {what}")]
pub struct Failure {
    rule: Rule,
    what: String,
    #[source]
    cause: Option<Box<CudaError>>,
}

impl Failure {
    /// The rule.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// The unexpected error of a call.
    #[must_use]
    pub fn cause(&self) -> Option<&CudaError> {
        self.cause.as_deref()
    }
}
