// Batch cosine similarity with top-k: for each query the k targets with the highest cosine, in three launches.
//
//   row_inverse_norms       1 / |row|, one warp for each row; rows.cuh says what it is for extreme rows
//   cosine_top_k_partial    a block scores 128 queries against one chunk of targets, tile by tile in shared memory, and
//                           keeps the best k of the chunk for each query: the score matrix is never written
//   cosine_top_k_merge      the best k of a query's chunks, one warp for each query
//
// Before them, scale makes the queries: rows of single precision, for the cosine with their largest element near 1.
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
    float norm = row_norm(rows, dim, sum);
    if (lane == 0) norms[row] = norm;
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

// One warp for each query: exact in single precision. For the cosine each row is multiplied by a power of two that brings its largest element
// near 1.
template <typename T>
static __device__ __forceinline__ void scale(const T *from, float *to, u64 count, u64 dim, unsigned cosine) {
    u64 row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned lane = threadIdx.x % 32;
    if (row >= count) return;
    from += row * dim, to += row * dim;
    float power = 1.0f;
    if (cosine) {
        float largest = 0.0f;
        for (u64 i = lane; i < dim; i += 32) largest = fmaxf(largest, fabsf(to_float(from[i])));
        for (unsigned offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, offset));
        // 2^-e for a largest element of 2^e to 2^(e+1), as far as it is a normal number.
        int exponent = min(max(254 - (int)(__float_as_uint(largest) >> 23), 1), 254);
        power = __uint_as_float((unsigned)exponent << 23);
    }
    for (u64 i = lane; i < dim; i += 32) to[i] = to_float(from[i]) * power;
}

#define SCALE(type, name)                                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) scale_##name(const type *from, float *to, u64 count, u64 dim,            \
                                                                       unsigned cosine) {                                          \
        scale(from, to, count, dim, cosine);                                                                                       \
    }
SCALE(float, f32)
SCALE(half_bits, f16)
SCALE(bfloat_bits, bf16)

// One block of one warp for each query.
extern "C" __global__ void cosine_top_k_merge(const float *scores, const unsigned *indices, float *best_scores,
                                              unsigned *best_indices, u64 chunks, unsigned k) {
    extern __shared__ float memory[];
    merge(scores, indices, best_scores, best_indices, blockIdx.x, blockIdx.x, chunks, k, memory);
}
