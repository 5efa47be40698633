//! Lists of pieces of the targets, merged.

use crate::cosine_top_k::cpu::{NONE, insert};
use crate::reference::{Outcome, number};
use cuda_um_sim::LaunchContext;

pub(super) fn merge(launch: &mut LaunchContext<'_>) -> Outcome {
    let query_count = launch.grid()[0] as usize;
    let (piece_k, k, first) = (
        number(launch, 4)?,
        number(launch, 5)?,
        launch.value::<u32>(6)?,
    );
    let piece = launch.slice::<f32>(0, query_count * piece_k)?;
    let piece_indices = launch.slice::<u32>(1, query_count * piece_k)?;
    let scores = launch.slice_mut::<f32>(2, query_count * k)?;
    let indices = launch.slice_mut::<u32>(3, query_count * k)?;
    if first == 0 {
        scores.fill(f32::NEG_INFINITY);
        indices.fill(NONE);
    }
    let lists = scores.chunks_mut(k).zip(indices.chunks_mut(k));
    let pieces = piece.chunks(piece_k).zip(piece_indices.chunks(piece_k));
    for ((scores, indices), (piece, piece_indices)) in lists.zip(pieces) {
        for (score, index) in piece.iter().zip(piece_indices) {
            insert(scores, indices, *score, index.wrapping_add(first));
        }
    }
    Ok(())
}
