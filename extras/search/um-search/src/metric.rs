//! Similarity measures.

/// The similarity measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// The rows' cosine.
    Cosine,
    /// The sum of the elements' products.
    InnerProduct,
}
