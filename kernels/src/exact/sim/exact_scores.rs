//! Scores in single precision, bit for bit as in the kernel without a filter.

use crate::chain;
use crate::cosine_top_k::cpu::Scalar;
use cuda_um_sim::{LaunchContext, ReferenceError};

/// The rows of the queries and of the targets before `end`, and their norms: the first four arguments.
pub(super) struct ExactScores<'a, T> {
    queries: &'a [f32],
    targets: &'a [T],
    query_norms: &'a [f32],
    target_norms: &'a [f32],
    dim: usize,
}

impl<'a, T: Scalar> ExactScores<'a, T> {
    pub fn of(
        launch: &LaunchContext<'a>,
        query_count: usize,
        dim: usize,
        end: usize,
    ) -> Result<Self, ReferenceError> {
        Ok(Self {
            queries: launch.slice(0, query_count * dim)?,
            targets: launch.slice(1, end * dim)?,
            query_norms: launch.slice(2, query_count)?,
            target_norms: launch.slice(3, end)?,
            dim,
        })
    }

    /// The scores of a query with some targets.
    pub fn of_targets(&self, query: usize, targets: &[u32]) -> Vec<f32> {
        let (mut rows, mut room, mut products) = (Vec::new(), Vec::new(), Vec::new());
        for target in targets {
            let row = &self.targets[*target as usize * self.dim..][..self.dim];
            rows.extend_from_slice(T::widen(row, &mut room));
        }
        let row = &self.queries[query * self.dim..][..self.dim];
        chain::products(row, &rows, self.dim, &mut products);
        for (product, target) in products.iter_mut().zip(targets) {
            *product = *product * self.query_norms[query] * self.target_norms[*target as usize];
        }
        products
    }

    /// The least of these scores.
    pub fn least(&self, query: usize, targets: &[u32]) -> f32 {
        let scores = self.of_targets(query, targets);
        scores.into_iter().fold(f32::INFINITY, f32::min)
    }
}
