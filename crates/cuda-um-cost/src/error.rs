//! Why a model is refused.

use crate::figure::{MOST_MICROSECONDS, RATES};

/// Why a cost model was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// The text is not JSON.
    #[error("a cost model must be JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The text is in a format of another version.
    #[error("`format` is {found}; this version reads format {known}")]
    Format {
        /// What the text says.
        found: u64,
        /// What can be read.
        known: u64,
    },
    /// There is a field that no cost model has.
    #[error("a cost model has no field `{field}`")]
    Unknown {
        /// The field, with the group it is in.
        field: String,
    },
    /// There is no such field, and there must be.
    #[error("field `{field}` is missing")]
    Missing {
        /// The field, with the group it belongs in.
        field: String,
    },
    /// A field holds something of another type.
    #[error("`{field}` is {found}; {wanted} is allowed")]
    Type {
        /// The field, with the group it is in.
        field: String,
        /// What it holds, as JSON.
        found: String,
        /// What it may hold.
        wanted: &'static str,
    },
    /// A time is negative, not a number, or absurdly long.
    #[error("`{field}` is {microseconds} microseconds; 0 to {MOST_MICROSECONDS} are allowed")]
    Time {
        /// The figure.
        field: String,
        /// Its value.
        microseconds: f64,
    },
    /// A rate is not above zero, not a number, or absurd.
    #[error(
        "`{field}` is {bytes_per_second} bytes a second; {} to {} are allowed",
        RATES.start(),
        RATES.end()
    )]
    Rate {
        /// The figure.
        field: String,
        /// Its value.
        bytes_per_second: f64,
    },
    /// A figure was given in the unit of the other kind: a time for a rate, or a rate for a time.
    #[error("`{field}` is a {wanted}")]
    Kind {
        /// The figure.
        field: String,
        /// `time` or `rate`.
        wanted: &'static str,
    },
}
