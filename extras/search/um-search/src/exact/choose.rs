//! Decides if the filter is used.

use super::ExactTopK;
use super::bound::LONGEST_ROW;
use super::filter::Filter;
use super::modules::FilterKernels;
use super::tiles::Format;
use crate::cosine_top_k::{TopKShape, is_few};
use crate::metric::Metric;

/// For fewer targets, or less work, the ten launches of the filter take too long.
const FEWEST_TARGETS: usize = 8 << 10;
const LEAST_PRODUCTS: u64 = 1 << 30;
/// From so many targets on, and for lists of at most this length, 8 bits are faster than half precision, also if few queries share
/// the work that does not depend on the targets.
const MANY_TARGETS: usize = 1 << 18;
const SHORT_LIST: usize = 32;

/// The method of a launch, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchPath {
    /// The filter's kernels and format; `None`: every pair was scored in single precision.
    pub filter: Option<(FilterKernels, Format)>,
    /// The reason, as text.
    pub reason: String,
}

impl SearchPath {
    /// A search without the filter, for this reason: also for a search that a program makes itself.
    pub fn without_filter(reason: impl Into<String>) -> Self {
        Self {
            filter: None,
            reason: reason.into(),
        }
    }
}

impl ExactTopK {
    /// The format of the filter, or the reason why no filter is used.
    pub(super) fn choose(
        &self,
        filter: Filter,
        metric: Metric,
        shape: TopKShape,
    ) -> Result<(FilterKernels, Format, &'static str), String> {
        let kernels = self.kernels()?;
        if shape.dim > LONGEST_ROW {
            return Err(format!(
                "rows of more than {LONGEST_ROW} elements have no bound"
            ));
        }
        let is_long = shape.targets >= MANY_TARGETS && shape.k <= SHORT_LIST;
        let usual = || match metric {
            Metric::Cosine if is_long && self.attempts.is_due() => Format::Int8,
            Metric::Cosine => Format::F16,
            Metric::InnerProduct => Format::Bf16,
        };
        match filter {
            Filter::Off => Err("the filter is off".to_owned()),
            Filter::Bf16 => Ok((kernels, Format::Bf16, "requested")),
            Filter::F16 => Ok((kernels, Format::F16, "requested")),
            Filter::Int8 => Ok((kernels, Format::Int8, "requested")),
            Filter::Auto => match too_small(shape) {
                Some(reason) => Err(reason),
                None => Ok((kernels, usual(), "chosen for the shape")),
            },
        }
    }
}

fn too_small(shape: TopKShape) -> Option<String> {
    if is_few(shape) {
        return Some(
            "few queries: one pass over the rows is faster than their conversion".to_owned(),
        );
    }
    let TopKShape {
        queries,
        targets,
        dim,
        k,
    } = shape;
    if targets < FEWEST_TARGETS {
        return Some(format!("fewer than {FEWEST_TARGETS} targets"));
    }
    let products = [queries, targets, dim]
        .into_iter()
        .fold(1u64, |product, size| product.saturating_mul(size as u64));
    if products < LEAST_PRODUCTS {
        return Some("little work".to_owned());
    }
    (targets / k < 64).then(|| "lists of more than a 64th of the targets".to_owned())
}
