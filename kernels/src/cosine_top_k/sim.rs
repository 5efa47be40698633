//! The kernels as the simulator runs them.

use super::cpu::{NONE, Scalar, Vectors, best_of, insert, row_inverse_norms_cpu};
use cuda_um_sim::{LaunchContext, TwinError};

pub(crate) fn norms<T: Scalar>(launch: &mut LaunchContext<'_>) -> Result<(), TwinError> {
    let (rows, dim) = (
        launch.value::<u64>(2)? as usize,
        launch.value::<u64>(3)? as usize,
    );
    let elements = launch.slice::<T>(0, rows * dim)?;
    row_inverse_norms_cpu(elements, dim, launch.slice_mut::<f32>(1, rows)?);
    Ok(())
}

pub(crate) fn partial<T: Scalar>(launch: &mut LaunchContext<'_>) -> Result<(), TwinError> {
    let size = |index| launch.value::<u64>(index).map(|value| value as usize);
    let (query_count, target_count, dim, chunk) = (size(6)?, size(7)?, size(8)?, size(9)?);
    let k = launch.value::<u32>(10)? as usize;
    let chunks = launch.grid()[1] as usize;
    let vectors = Vectors {
        queries: launch.slice(0, query_count * dim)?,
        targets: launch.slice::<T>(1, target_count * dim)?,
        query_norms: launch.slice(2, query_count)?,
        target_norms: launch.slice(3, target_count)?,
        dim,
    };
    let stride = chunks * k;
    let scores = launch.slice_mut::<f32>(4, query_count * stride)?;
    let indices = launch.slice_mut::<u32>(5, query_count * stride)?;
    for part in 0..chunks {
        let range = part * chunk..((part + 1) * chunk).min(target_count);
        best_of(
            vectors,
            k,
            range,
            stride,
            &mut scores[part * k..],
            &mut indices[part * k..],
        );
    }
    Ok(())
}

pub(crate) fn merge(launch: &mut LaunchContext<'_>) -> Result<(), TwinError> {
    let query_count = launch.grid()[0] as usize;
    let (chunks, k) = (
        launch.value::<u64>(4)? as usize,
        launch.value::<u32>(5)? as usize,
    );
    let scores = launch.slice::<f32>(0, query_count * chunks * k)?;
    let indices = launch.slice::<u32>(1, query_count * chunks * k)?;
    let best = launch.slice_mut::<f32>(2, query_count * k)?;
    let best_indices = launch.slice_mut::<u32>(3, query_count * k)?;
    best.fill(f32::NEG_INFINITY);
    best_indices.fill(NONE);
    let lists = scores
        .chunks_exact(chunks * k)
        .zip(indices.chunks_exact(chunks * k));
    for ((scores, indices), (best, best_indices)) in lists.zip(
        best.chunks_exact_mut(k)
            .zip(best_indices.chunks_exact_mut(k)),
    ) {
        for (score, index) in scores.iter().zip(indices) {
            insert(best, best_indices, *score, *index);
        }
    }
    Ok(())
}
