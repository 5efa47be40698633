//! The interface of the cases to CUDA.

use super::Code;
use crate::{Failure, Machine, Value, Verdict};
use cuda_um_sys::Table;
use std::cell::RefCell;
use std::fmt::Debug;

/// The interface of a case: CUDA's functions, and a list of observations.
pub struct Cuda<'m> {
    pub(crate) machine: &'m Machine,
    seen: RefCell<Vec<(String, Value)>>,
    /// Failures in the drops of guards, which cannot return an error.
    late: RefCell<Vec<String>>,
    /// Calls of functions without a result code, which are not in a simulator's log.
    pub(super) asked: RefCell<Vec<&'static str>>,
}

impl<'m> Cuda<'m> {
    /// Creates the interface for one case.
    pub(crate) fn new(machine: &'m Machine) -> Self {
        Self {
            machine,
            seen: RefCell::default(),
            late: RefCell::default(),
            asked: RefCell::default(),
        }
    }

    pub(super) fn table(&self) -> &'m Table {
        &self.machine.table
    }

    /// Records an observation.
    pub(crate) fn note(&self, what: &str, value: Value) {
        self.seen.borrow_mut().push((what.to_owned(), value));
    }

    pub(crate) fn into_seen(self) -> Vec<(String, Value)> {
        self.seen.into_inner()
    }

    /// True if the case itself has called this function about errors.
    pub(crate) fn has_asked(&self, function: &str) -> bool {
        self.asked.borrow().contains(&function)
    }

    pub(super) fn complain(&self, what: String) {
        self.late.borrow_mut().push(what);
    }

    /// The failures in the drops of guards.
    pub(crate) fn complaints(&self) -> Verdict {
        match self.late.borrow().as_slice() {
            [] => Ok(()),
            late => fail(late.join("; ")),
        }
    }

    /// For a call in a preparation: it must succeed.
    pub(crate) fn ok(&self, what: &str, code: Code) -> Verdict {
        match code {
            Code::SUCCESS => Ok(()),
            code => fail(format!("{what}: {}", self.text(code))),
        }
    }

    /// For the rule: the call returns this code.
    pub(crate) fn gives(&self, what: &str, code: Code, expected: Code) -> Verdict {
        self.note(what, Value::Text(self.text(code)));
        if code != Code::SUCCESS {
            self.forget_error();
        }
        if code == expected {
            return Ok(());
        }
        fail(format!(
            "{what}: {}, expected {}",
            self.text(code),
            self.text(expected)
        ))
    }

    /// For the rule: the call succeeds.
    pub(crate) fn succeeds(&self, what: &str, code: Code) -> Verdict {
        self.gives(what, code, Code::SUCCESS)
    }

    /// For the rule: the call is refused. CUDA does not document a single code, so the code is recorded for the comparison.
    pub(crate) fn refuses(&self, what: &str, code: Code) -> Verdict {
        self.note(what, Value::Text(self.text(code)));
        self.forget_error();
        match code {
            Code::SUCCESS => fail(format!("{what}: not refused")),
            _ => Ok(()),
        }
    }

    /// For the rule: the observation has this value.
    pub(crate) fn is<T: PartialEq + Debug>(&self, what: &str, seen: T, expected: T) -> Verdict {
        self.note(what, Value::Text(format!("{seen:?}")));
        if seen == expected {
            return Ok(());
        }
        fail(format!("{what}: {seen:?}, expected {expected:?}"))
    }

    /// For the rule: the condition is true.
    pub(crate) fn holds(&self, what: &str, holds: bool) -> Verdict {
        self.is(what, holds, true)
    }
}

/// A failure with a text of the case.
pub(crate) fn fail<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure(text.into()))
}
