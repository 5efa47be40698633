//! Scores in single precision, bit for bit as in the kernel without a filter.

use crate::chain;
use crate::cosine_top_k::cpu::{Scalar, row_power};
use cuda_um_sim::{LaunchContext, ReferenceError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The rows of the queries and of the targets, and their norms: the first four arguments. Each target is read once, if it is
/// needed.
pub(super) struct ExactScores<'l, 'a, T> {
    launch: &'l LaunchContext<'a>,
    queries: &'a [f32],
    targets: RefCell<BTreeMap<u32, &'a [T]>>,
    query_norms: &'a [f32],
    target_norms: &'a [f32],
    dim: usize,
}

impl<'l, 'a, T: Scalar> ExactScores<'l, 'a, T> {
    pub fn of(
        launch: &'l LaunchContext<'a>,
        query_count: usize,
        dim: usize,
        end: usize,
    ) -> Result<Self, ReferenceError> {
        Ok(Self {
            queries: launch.slice(0, query_count * dim)?,
            launch,
            targets: RefCell::default(),
            query_norms: launch.slice(2, query_count)?,
            target_norms: launch.slice(3, end)?,
            dim,
        })
    }

    /// The scores of a query with some targets.
    pub fn of_targets(&self, query: usize, targets: &[u32]) -> Result<Vec<f32>, ReferenceError> {
        let (mut rows, mut room, mut products) = (Vec::new(), Vec::new(), Vec::new());
        for target in targets {
            let row = match self.targets.borrow_mut().entry(*target) {
                Entry::Occupied(row) => *row.get(),
                Entry::Vacant(place) => {
                    let first = *target as usize * self.dim;
                    *place.insert(self.launch.slice_at(1, first..first + self.dim)?)
                }
            };
            let power = row_power(self.target_norms[*target as usize]);
            rows.extend(T::widen(row, &mut room).iter().map(|value| value * power));
        }
        let row = &self.queries[query * self.dim..][..self.dim];
        chain::products(row, &rows, self.dim, &mut products);
        for (product, target) in products.iter_mut().zip(targets) {
            *product =
                *product * self.query_norms[query] * self.target_norms[*target as usize].abs();
        }
        Ok(products)
    }

    /// The least of these scores.
    pub fn least(&self, query: usize, targets: &[u32]) -> Result<f32, ReferenceError> {
        let scores = self.of_targets(query, targets)?;
        Ok(scores.into_iter().fold(f32::INFINITY, f32::min))
    }
}
