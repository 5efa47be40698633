//! The buffers of a launch.

use super::NAME;
use crate::cosine_top_k::TopKShape;
use crate::error::Result;
use cuda_um::{DeviceCopy, View, ViewMut};

/// The buffers of a launch, with targets of type `T` and queries of type `Q`.
#[derive(Debug)]
pub struct SearchBuffers<'a, T, Q = f32> {
    /// `[queries, dim]`, row-major.
    pub queries: View<'a, Q>,
    /// `[targets, dim]`, row-major.
    pub targets: View<'a, T>,
    /// `[queries, k]`, row-major: the highest first, for equal scores the lower index first; places without a target have −∞.
    pub scores: ViewMut<'a, f32>,
    /// `[queries, k]`, row-major: rows of `targets`; places without a target have `u32::MAX`.
    pub indices: ViewMut<'a, u32>,
}

impl<T, Q: DeviceCopy> SearchBuffers<'_, T, Q> {
    /// Checks the shape, and the lengths for it.
    pub(super) fn check(&self, shape: TopKShape) -> Result<()> {
        let lengths = [
            self.queries.len(),
            self.targets.len(),
            self.scores.len(),
            self.indices.len(),
        ];
        shape.check(NAME, lengths)
    }

    /// The buffers of queries from `first` on, of which `shape` gives the number.
    pub(super) fn batch(
        &mut self,
        first: usize,
        shape: TopKShape,
    ) -> Result<SearchBuffers<'_, T, Q>> {
        let end = first + shape.queries;
        let results = first * shape.k..end * shape.k;
        Ok(SearchBuffers {
            queries: self.queries.slice(first * shape.dim..end * shape.dim)?,
            targets: self.targets,
            scores: self.scores.slice_mut(results.clone())?,
            indices: self.indices.slice_mut(results)?,
        })
    }
}
