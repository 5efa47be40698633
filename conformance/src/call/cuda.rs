//! What a case works with.

use super::Code;
use crate::{Failure, Machine, Value, Verdict};
use cuda_um_sys::Table;
use std::cell::RefCell;
use std::fmt::Debug;

/// What a case works with: CUDA's functions, and a notebook.
pub struct Cuda<'m> {
    pub(crate) machine: &'m Machine,
    seen: RefCell<Vec<(String, Value)>>,
    /// The failures in the drops of guards, which return nothing.
    late: RefCell<Vec<String>>,
    /// Functions that give no code: a simulator's log has not got them.
    pub(super) asked: RefCell<Vec<&'static str>>,
}

impl<'m> Cuda<'m> {
    /// For one case.
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

    /// Writes down what was seen.
    pub(crate) fn note(&self, what: &str, value: Value) {
        self.seen.borrow_mut().push((what.to_owned(), value));
    }

    pub(crate) fn into_seen(self) -> Vec<(String, Value)> {
        self.seen.into_inner()
    }

    /// What the case itself has asked for about errors.
    pub(crate) fn has_asked(&self, function: &str) -> bool {
        self.asked.borrow().contains(&function)
    }

    pub(super) fn complain(&self, what: String) {
        self.late.borrow_mut().push(what);
    }

    /// What guards could not give back.
    pub(crate) fn complaints(&self) -> Verdict {
        match self.late.borrow().as_slice() {
            [] => Ok(()),
            late => fail(late.join("; ")),
        }
    }

    /// A call that the case only prepares with: it must succeed.
    pub(crate) fn ok(&self, what: &str, code: Code) -> Verdict {
        match code {
            Code::SUCCESS => Ok(()),
            code => fail(format!("{what}: {}", self.text(code))),
        }
    }

    /// The rule: the call gives this code.
    pub(crate) fn gives(&self, what: &str, code: Code, expected: Code) -> Verdict {
        self.note(what, Value::Text(self.text(code)));
        if code != Code::SUCCESS {
            self.forget_error();
        }
        if code == expected {
            return Ok(());
        }
        fail(format!(
            "{what}: {}, and not {}",
            self.text(code),
            self.text(expected)
        ))
    }

    /// The rule: the call is refused. CUDA documents no one code, so the code is written down to be compared.
    pub(crate) fn refuses(&self, what: &str, code: Code) -> Verdict {
        self.note(what, Value::Text(self.text(code)));
        self.forget_error();
        match code {
            Code::SUCCESS => fail(format!("{what}: not refused")),
            _ => Ok(()),
        }
    }

    /// The rule: this is what is seen.
    pub(crate) fn is<T: PartialEq + Debug>(&self, what: &str, seen: T, expected: T) -> Verdict {
        self.note(what, Value::Text(format!("{seen:?}")));
        if seen == expected {
            return Ok(());
        }
        fail(format!("{what}: {seen:?}, and not {expected:?}"))
    }

    /// The rule: this holds.
    pub(crate) fn holds(&self, what: &str, holds: bool) -> Verdict {
        self.is(what, holds, true)
    }
}

/// A failure in the case's own words.
pub(crate) fn fail<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure(text.into()))
}
