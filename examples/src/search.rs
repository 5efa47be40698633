//! One search through `dyn Buffer`: on the device if it can access the memory, otherwise on the CPU.

use crate::Failure;
use cuda_um::Stream;
use std::ops::Range;
use um_backend::{
    Buffer, Element,
    memory::{BufferMemory, BufferMemoryMut},
};
use um_search::{
    ExactTopK, Filter, Metric, SearchBuffers, SearchPath, TargetScalar, TopKShape, cosine_top_k_cpu,
};

/// The buffers of a search.
#[derive(Debug)]
pub struct Buffers<'a, T: Element> {
    /// The query rows.
    pub queries: &'a dyn Buffer<f32>,
    /// The rows to search.
    pub targets: &'a dyn Buffer<T>,
    /// `k` cosines for each query.
    pub scores: &'a mut dyn Buffer<f32>,
    /// `k` rows of targets for each query.
    pub indices: &'a mut dyn Buffer<u32>,
}

/// Searches for the queries in `batch`, and returns the search method when it is done.
///
/// # Errors
/// Some buffers are on the host and some on the device, the device does not have the filter, or the launch fails.
pub fn search<T: Element + TargetScalar>(
    kernel: &ExactTopK,
    filter: Filter,
    stream: &Stream,
    shape: TopKShape,
    batch: Range<usize>,
    buffers: Buffers<'_, T>,
) -> Result<SearchPath, Failure> {
    let shape = TopKShape {
        queries: batch.len(),
        ..shape
    };
    let query_range = batch.start * shape.dim..batch.end * shape.dim;
    let result_range = batch.start * shape.k..batch.end * shape.k;
    let Buffers {
        queries,
        targets,
        scores,
        indices,
    } = buffers;
    match (
        queries.memory(),
        targets.memory(),
        scores.memory_mut(),
        indices.memory_mut(),
    ) {
        (
            BufferMemory::Host(queries),
            BufferMemory::Host(targets),
            BufferMemoryMut::Host(scores),
            BufferMemoryMut::Host(indices),
        ) => {
            cosine_top_k_cpu(
                &queries[query_range],
                targets,
                shape.dim,
                shape.k,
                &mut scores[result_range.clone()],
                &mut indices[result_range],
            );
            Ok(SearchPath::without_filter("the buffers are in host memory"))
        }
        (queries, targets, scores, indices) => {
            let buffers = SearchBuffers {
                queries: queries.device_view()?.slice(query_range)?,
                targets: targets.device_view()?,
                scores: scores.device_view_mut()?.slice(result_range.clone())?,
                indices: indices.device_view_mut()?.slice(result_range)?,
            };
            let path = kernel.launch(stream, shape, Metric::Cosine, filter, buffers)?;
            stream.synchronize()?;
            Ok(path)
        }
    }
}

/// Splits the queries so that progress can be shown in long searches: on a CPU, or with very many targets.
pub fn batches(shape: TopKShape, on_cpu: bool) -> impl Iterator<Item = Range<usize>> {
    let products = if on_cpu {
        16_000_000_000
    } else {
        5_000_000_000_000
    };
    let of_one_query = shape.targets.saturating_mul(shape.dim).max(1);
    let size = (products / of_one_query)
        .clamp(1, shape.queries)
        .next_multiple_of(64);
    (0..shape.queries)
        .step_by(size)
        .map(move |first| first..(first + size).min(shape.queries))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(queries: usize, targets: usize, on_cpu: bool) -> Vec<usize> {
        let shape = TopKShape {
            queries,
            targets,
            dim: 768,
            k: 10,
        };
        let batches: Vec<_> = batches(shape, on_cpu).collect();
        assert!(batches.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(
            (batches[0].start, batches[batches.len() - 1].end),
            (0, queries)
        );
        batches.into_iter().map(|batch| batch.len()).collect()
    }

    #[test]
    fn small_searches_are_one_batch() {
        assert_eq!(sizes(1000, 1000, true), [1000]);
        assert_eq!(sizes(1, 1, true), [1]);
        assert_eq!(sizes(1000, 1_000_000, false), [1000]);
    }

    #[test]
    fn long_ones_are_cut() {
        assert_eq!(sizes(300, 200_000, true), [128, 128, 44]);
        assert_eq!(sizes(100, usize::MAX / 4096, true), [64, 36]);
    }
}
