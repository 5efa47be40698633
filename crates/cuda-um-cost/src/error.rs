//! Errors of cost models.

use thiserror::Error;

/// The reason why a text is not a cost model, or a value is not allowed in one.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// The file cannot be read.
    #[error("{reason}")]
    File {
        /// The reason.
        reason: String,
    },
    /// The text is not JSON, or not an object.
    #[error("a cost model is an object in JSON: {reason}")]
    Json {
        /// The message of the parser.
        reason: String,
    },
    /// A field that cost models do not have.
    #[error("a cost model has no field {field:?}")]
    Unknown {
        /// Its name.
        field: String,
    },
    /// A value that is not allowed.
    #[error("{field:?} of the cost model is {value}; allowed is {allowed}")]
    Invalid {
        /// The field's name.
        field: String,
        /// The value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
}
