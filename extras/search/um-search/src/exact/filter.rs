//! The filter that a caller requests, and its limits.

/// Limit on special rows, which are scored for every query; with more of them, nothing is filtered.
pub(super) const MOST_SPECIAL: usize = 256;
/// Limit on survivors that one block can score.
pub(super) const MOST_SURVIVORS: usize = 4096;

/// The filter that a caller requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// Chosen by the expected time: half precision for cosines, bf16 for inner products. Cosines with very many targets (262,144) and
    /// short lists (up to 32) begin in 8 bits. If more than 128 of 1024 queries have too many candidates, these and the following
    /// queries are filtered again in half precision. After a launch with such queries the next 15 use half precision.
    #[default]
    Auto,
    /// No filter: every pair is scored in single precision.
    Off,
    /// Rows rounded to bf16.
    Bf16,
    /// Rows rounded to half precision. Inner products need rows within its range.
    F16,
    /// Rows as 8-bit integers with a scale each: the fastest for rows whose elements are of similar size.
    Int8,
}
