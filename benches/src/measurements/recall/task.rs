//! The vectors of a search, and the verification of its results.

use crate::data;
use crate::measure::Round;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Numbers of a vector.
pub(in crate::measurements) const DIM: usize = 768;
/// Results of a query.
pub(in crate::measurements) const K: usize = 10;
/// The allowed rounding error of a cosine in single precision.
pub(in crate::measurements) const SINGLE: f32 = 1e-4;
/// Queries that are verified each round.
const VERIFIED: usize = 4;

/// The queries of a round, and the result of the CPU reference for the first ones.
pub(in crate::measurements) struct Task<'a> {
    round: Option<u64>,
    pub(in crate::measurements) queries: Vec<f32>,
    targets: &'a [f32],
    truth: Vec<f32>,
    file: Option<PathBuf>,
}

impl<'a> Task<'a> {
    pub(in crate::measurements) fn new(
        queries: usize,
        targets: &'a [f32],
        file: Option<PathBuf>,
    ) -> Self {
        Self {
            round: None,
            queries: vec![0.0; queries * DIM],
            targets,
            truth: vec![0.0; VERIFIED.min(queries) * K],
            file,
        }
    }

    /// Makes the queries of the round, if they do not exist yet.
    pub(in crate::measurements) fn at(&mut self, round: &Round<'_>) -> Result<()> {
        if self.round == Some(round.number) {
            return Ok(());
        }
        self.round = Some(round.number);
        data::fill_unit_vectors(&mut self.queries, DIM, round.number);
        let first = &self.queries[..self.truth.len() / K * DIM];
        let mut best = vec![0; self.truth.len()];
        um_search::cosine_top_k_cpu(first, self.targets, DIM, K, &mut self.truth, &mut best);
        match &self.file {
            Some(file) => write(file, &self.queries),
            None => Ok(()),
        }
    }

    pub(in crate::measurements) fn verify(
        &self,
        round: &mut Round<'_>,
        scores: &[f32],
        best: &[u32],
        tolerance: f32,
    ) -> Result<()> {
        let holds = self.holds(scores, best, tolerance);
        round.verify_that(holds, "other results than the CPU reference")
    }

    /// True if each score is equal to the score at the same place of the reference list, and is the cosine of the named target,
    /// and no target occurs twice: rounding may only exchange targets with almost equal cosines.
    fn holds(&self, scores: &[f32], best: &[u32], tolerance: f32) -> bool {
        let near = |a: f32, b: f32| (a - b).abs() < tolerance;
        let right = |place: usize| {
            let query = &self.queries[place / K * DIM..][..DIM];
            let row = self.targets.chunks_exact(DIM).nth(best[place] as usize);
            row.is_some_and(|row| {
                let cosine: f32 = query.iter().zip(row).map(|(q, t)| q * t).sum();
                near(scores[place], self.truth[place]) && near(cosine, self.truth[place])
            })
        };
        let once = |list: &[u32]| (1..list.len()).all(|i| !list[..i].contains(&list[i]));
        scores.len().min(best.len()) >= self.truth.len()
            && (0..self.truth.len()).all(right)
            && best[..self.truth.len()].chunks(K).all(once)
    }
}

pub(super) fn write(path: &Path, vectors: &[f32]) -> Result<()> {
    std::fs::write(path, bytemuck::cast_slice(vectors)).with_context(|| path.display().to_string())
}
