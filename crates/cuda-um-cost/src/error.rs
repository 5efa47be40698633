//! Why a text, or a value, is none of a cost model.

use thiserror::Error;

/// Why a text is no cost model, or a value none of one.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// The file cannot be read.
    #[error("{reason}")]
    File {
        /// What is wrong with it.
        reason: String,
    },
    /// It is no JSON, or no object.
    #[error("a cost model is an object in JSON: {reason}")]
    Json {
        /// What the parser says.
        reason: String,
    },
    /// A field is not there.
    #[error("the cost model has no {field:?}")]
    Missing {
        /// Its name.
        field: String,
    },
    /// A field that no cost model has.
    #[error("a cost model has no field {field:?}")]
    Unknown {
        /// Its name.
        field: String,
    },
    /// A value that cannot be.
    #[error("{field:?} of the cost model is {value}; allowed is {allowed}")]
    Invalid {
        /// The field's name.
        field: String,
        /// The value.
        value: String,
        /// What would be right.
        allowed: &'static str,
    },
}
