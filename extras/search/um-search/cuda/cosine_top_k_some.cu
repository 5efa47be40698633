// The lists of cosine_top_k.cu for queries that only the device knows: the queries that the filter of the exact search passes
// to the fallback. They are in a separate module, because drivers need some time to compile it.

#include "cosine_top_k.cuh"

// For the first `count` queries of the grid.
#define PARTIAL_SOME(type, name)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) cosine_top_k_partial_some_##name(                                     \
        const float *queries, const type *targets, const float *query_norms, const float *target_norms, float *scores,             \
        unsigned *indices, const unsigned *count, u64 target_count, u64 dim, u64 chunk, unsigned k) {                              \
        unsigned some = *count;                                                                                                    \
        if (blockIdx.x * TILE >= some) return;                                                                                     \
        partial(queries, targets, query_norms, target_norms, scores, indices, some, target_count, dim, chunk, k);                  \
    }
PARTIAL_SOME(float, f32)
PARTIAL_SOME(half_bits, f16)
PARTIAL_SOME(bfloat_bits, bf16)

// One block of one warp for each query. For `some[0]` queries; their results are rows `some[1]`, `some[2]`, ...
extern "C" __global__ void cosine_top_k_merge_some(const float *scores, const unsigned *indices, float *best_scores,
                                                   unsigned *best_indices, const unsigned *some, u64 chunks, unsigned k) {
    extern __shared__ float memory[];
    if (blockIdx.x >= some[0]) return;
    merge(scores, indices, best_scores, best_indices, blockIdx.x, some[1 + blockIdx.x], chunks, k, memory);
}
