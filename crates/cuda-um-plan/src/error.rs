//! Errors of plans.

use thiserror::Error;

/// The reason why there is no plan.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A value of a program or a link that is not allowed.
    #[error("{entry} is {value}; allowed is {allowed}")]
    Invalid {
        /// The place of the value.
        entry: String,
        /// The value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The buffers of one step do not fit into the budget together.
    #[error(
        "step {step} ({name:?}) uses {needed} bytes in whole slots of 2 MiB, and the budget has {budget}: \
         raise the budget, or split the step or its buffers"
    )]
    StepExceedsBudget {
        /// The index of the step.
        step: usize,
        /// Its name.
        name: String,
        /// The bytes of the slots that its buffers take.
        needed: u64,
        /// The bytes of the whole slots of the budget.
        budget: u64,
    },
    /// The plan would read wrong contents, lose contents, or use a slot twice.
    #[error("the plan is wrong at step {step}, buffer {buffer}: {rule}")]
    Broken {
        /// The index of the step.
        step: usize,
        /// The index of the buffer.
        buffer: usize,
        /// The rule that the plan breaks.
        rule: &'static str,
    },
    /// The file cannot be read or written.
    #[error("{reason}")]
    File {
        /// The reason.
        reason: String,
    },
    /// The text is not a plan or a program in JSON.
    #[error("not a plan or program in JSON: {reason}")]
    Json {
        /// The message of the parser.
        reason: String,
    },
    /// The text has another version of the format.
    #[error(
        "the format has version {found}, and this version of the library reads {supported}: solve the program again"
    )]
    Version {
        /// The version of the text.
        found: u64,
        /// The version that this library reads.
        supported: u64,
    },
    /// The plan belongs to another program.
    #[error(
        "the plan belongs to a program with the digest {plan:016x}, and this one has {program:016x}: solve the program again"
    )]
    Digest {
        /// The digest in the plan.
        plan: u64,
        /// The digest of the program.
        program: u64,
    },
    /// The plan needs more device memory than there is.
    #[error(
        "the plan uses a budget of {plan} bytes, and {given} are given: solve the program again with this budget"
    )]
    Budget {
        /// The budget of the plan, in bytes.
        plan: u64,
        /// The given budget, in bytes.
        given: u64,
    },
}

impl PlanError {
    pub(crate) fn invalid(entry: String, value: impl ToString, allowed: &'static str) -> Self {
        let value = value.to_string();
        Self::Invalid {
            entry,
            value,
            allowed,
        }
    }
}
