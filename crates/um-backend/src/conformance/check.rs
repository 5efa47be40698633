//! Checks that the rules share.

use std::fmt::Debug;

use super::failure::{Failure, Rule, Verdict};
use super::sample::sample;
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};

/// The index of the sample that marks host memory before a copy.
const UNTOUCHED: usize = 977;

impl Rule {
    pub(super) fn broken(self, what: String) -> Failure {
        Failure {
            rule: self,
            what,
            cause: None,
        }
    }

    pub(super) fn holds(self, holds: bool, what: impl FnOnce() -> String) -> Verdict {
        if holds {
            Ok(())
        } else {
            Err(self.broken(what()))
        }
    }

    pub(super) fn same<V: PartialEq + Debug>(self, what: &str, found: V, expected: V) -> Verdict {
        self.holds(found == expected, || {
            format!("{what}: {found:?} instead of {expected:?}")
        })
    }

    /// Requires that a call succeeds.
    pub(super) fn works<R>(self, call: &str, result: Result<R>) -> Verdict<R> {
        result.map_err(|error| Failure {
            rule: self,
            what: format!("{call} failed: {error}"),
            cause: Some(Box::new(error)),
        })
    }

    /// Requires that a call fails with an error that `expected` accepts.
    pub(super) fn refused(
        self,
        call: &str,
        result: Result<()>,
        expected: impl FnOnce(&CudaError) -> bool,
    ) -> Verdict {
        match result {
            Err(error) if expected(&error) => Ok(()),
            Err(error) => Err(Failure {
                rule: self,
                what: format!("{call} failed with another error: {error:?}"),
                cause: Some(Box::new(error)),
            }),
            Ok(()) => Err(self.broken(format!("{call} was not refused"))),
        }
    }

    /// Reads the buffer's elements.
    pub(super) fn read<T: Element>(self, buffer: &dyn Buffer<T>) -> Verdict<Vec<T>> {
        let mut found = vec![sample(UNTOUCHED); buffer.len()];
        self.works("copy_to_host", buffer.copy_to_host(&mut found))?;
        Ok(found)
    }

    /// Requires that the buffer holds these elements.
    pub(super) fn has<T: Element>(
        self,
        buffer: &dyn Buffer<T>,
        expected: &[T],
        when: &str,
    ) -> Verdict {
        self.equal(&self.read(buffer)?, expected, when)
    }

    /// Requires that two slices are equal.
    pub(super) fn equal<T: Element>(self, found: &[T], expected: &[T], when: &str) -> Verdict {
        self.same(
            &format!("number of elements {when}"),
            found.len(),
            expected.len(),
        )?;
        let different = found.iter().zip(expected).position(|(a, b)| a != b);
        different.map_or(Ok(()), |at| {
            let (found, expected, len) = (found[at], expected[at], found.len());
            Err(self.broken(format!(
                "{when}, element {at} of {len} is {found:?} instead of {expected:?}"
            )))
        })
    }
}
