// Batch cosine similarity with top-k: for each query the k targets with the highest cosine, in three launches.
//
//   row_inverse_norms       1 / |row|, one warp for each row
//   cosine_top_k_partial    a block scores 128 queries against one chunk of targets, tile by tile in shared memory, and
//                           keeps the best k of the chunk for each query: the score matrix is never written
//   cosine_top_k_merge      the best k of a query's chunks, one warp for each query
//
// Besides, widen makes rows of single precision from rows in 16 bits.
//
// The order is always: the higher cosine first; for equal cosines the lower index first. A row of zeros has norm 0 and cosine 0
// with every row. Lists are rows of k. If a chunk has fewer than k targets, the remaining places have score -inf and index
// 0xffffffff.

#include "cosine_top_k.cuh"

template <typename T>
static __device__ __forceinline__ void inverse_norms(const T *rows, float *norms, u64 count, u64 dim) {
    u64 row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned lane = threadIdx.x % 32;
    if (row >= count) return;
    rows += row * dim;
    float sum = square_sum(rows, dim);
    if (lane == 0) norms[row] = inverse_norm(sum);
}

#define ROWS_OF(type, name)                                                                                                        \
    extern "C" __global__ void row_inverse_norms_##name(const type *rows, float *norms, u64 count, u64 dim) {                      \
        inverse_norms(rows, norms, count, dim);                                                                                    \
    }                                                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) cosine_top_k_partial_##name(                                          \
        const float *queries, const type *targets, const float *query_norms, const float *target_norms, float *scores,             \
        unsigned *indices, u64 query_count, u64 target_count, u64 dim, u64 chunk, unsigned k) {                                    \
        partial(queries, targets, query_norms, target_norms, scores, indices, query_count, target_count, dim, chunk, k);           \
    }
ROWS_OF(float, f32)
ROWS_OF(half_bits, f16)
ROWS_OF(bfloat_bits, bf16)

// Queries in 16 bits, in single precision: exact.
#define WIDEN(type, name)                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) widen_##name(const type *from, float *to, u64 count) {                   \
        for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < count; i += (u64)gridDim.x * THREADS) to[i] = to_float(from[i]); \
    }
WIDEN(half_bits, f16)
WIDEN(bfloat_bits, bf16)

// One block of one warp for each query.
extern "C" __global__ void cosine_top_k_merge(const float *scores, const unsigned *indices, float *best_scores,
                                              unsigned *best_indices, u64 chunks, unsigned k) {
    extern __shared__ float memory[];
    merge(scores, indices, best_scores, best_indices, blockIdx.x, blockIdx.x, chunks, k, memory);
}
