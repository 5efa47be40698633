// Batch cosine similarity with top-k: for each query the k targets of the highest cosine, in three launches.
//
//   row_inverse_norms       1 / |row|, a warp a row
//   cosine_top_k_partial    a block scores 64 queries against one chunk of targets, tile by tile in shared memory, and keeps the
//                           best k of the chunk for each query: the score matrix is never written
//   cosine_top_k_merge      the best k of a query's chunks
//
// Order everywhere: the higher cosine first, among equal ones the lower index. A row of zeros has norm 0 and cosine 0 with all.
// Lists are rows of k; places that a chunk shorter than k leaves open have score -inf and index 0xffffffff.

#define TILE 64       // queries and targets in a tile
#define DEPTH 16      // elements of a vector in a tile
#define THREADS 256   // 16 x 16 threads, each with 4 x 4 scores
#define NONE 0xffffffffu

typedef unsigned long long u64;
typedef unsigned short half_bits;

static __device__ __forceinline__ float to_float(float value) { return value; }

static __device__ __forceinline__ float to_float(half_bits bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

template <typename T>
static __device__ __forceinline__ void inverse_norms(const T *rows, float *norms, u64 count, u64 dim) {
    u64 row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    unsigned lane = threadIdx.x % 32;
    if (row >= count) return;
    float sum = 0.0f;
    for (u64 i = lane; i < dim; i += 32) {
        float value = to_float(rows[row * dim + i]);
        sum = fmaf(value, value, sum);
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0) norms[row] = sum > 0.0f ? 1.0f / sqrtf(sum) : 0.0f;
}

// Puts a candidate into a list that is sorted, if it belongs there. Candidates come with rising indices, so that an equal score
// stays behind what is there.
static __device__ __forceinline__ void insert(float *scores, unsigned *indices, unsigned k, float score, unsigned index) {
    if (!(score > scores[k - 1])) return;
    unsigned place = k - 1;
    while (place > 0 && score > scores[place - 1]) {
        scores[place] = scores[place - 1];
        indices[place] = indices[place - 1];
        place -= 1;
    }
    scores[place] = score;
    indices[place] = index;
}

// Not static: its shared arrays would get names that depend on where this file lies.
template <typename T>
__device__ __forceinline__ void partial(const float *queries, const T *targets, const float *query_norms,
                                        const float *target_norms, float *scores, unsigned *indices, u64 query_count,
                                        u64 target_count, u64 dim, u64 chunk, unsigned k) {
    __shared__ float query_tile[DEPTH][TILE + 1];
    __shared__ float target_tile[DEPTH][TILE + 1];
    __shared__ float score_tile[TILE][TILE + 1];

    u64 first_query = (u64)blockIdx.x * TILE;
    u64 first_target = (u64)blockIdx.y * chunk;
    u64 end_target = first_target + chunk < target_count ? first_target + chunk : target_count;
    unsigned column = threadIdx.x % 16, line = threadIdx.x / 16;

    // Threads below TILE own a query's list each.
    u64 own_query = first_query + threadIdx.x;
    bool owner = threadIdx.x < TILE && own_query < query_count;
    u64 list = (own_query * gridDim.y + blockIdx.y) * k;
    if (owner)
        for (unsigned i = 0; i < k; i++) {
            scores[list + i] = __int_as_float(0xff800000);
            indices[list + i] = NONE;
        }

    for (u64 tile = first_target; tile < end_target; tile += TILE) {
        float sums[4][4] = {};
        for (u64 depth = 0; depth < dim; depth += DEPTH) {
            for (unsigned row = line; row < TILE; row += 16) {
                u64 element = depth + column;
                u64 query = first_query + row, target = tile + row;
                query_tile[column][row] = element < dim && query < query_count ? queries[query * dim + element] : 0.0f;
                target_tile[column][row] =
                    element < dim && target < end_target ? to_float(targets[target * dim + element]) : 0.0f;
            }
            __syncthreads();
#pragma unroll
            for (unsigned i = 0; i < DEPTH; i++) {
                float q[4], t[4];
#pragma unroll
                for (unsigned j = 0; j < 4; j++) {
                    q[j] = query_tile[i][line + 16 * j];
                    t[j] = target_tile[i][column + 16 * j];
                }
#pragma unroll
                for (unsigned a = 0; a < 4; a++)
#pragma unroll
                    for (unsigned b = 0; b < 4; b++) sums[a][b] = fmaf(q[a], t[b], sums[a][b]);
            }
            __syncthreads();
        }
#pragma unroll
        for (unsigned a = 0; a < 4; a++)
#pragma unroll
            for (unsigned b = 0; b < 4; b++) score_tile[line + 16 * a][column + 16 * b] = sums[a][b];
        __syncthreads();
        if (owner) {
            float norm = query_norms[own_query];
            unsigned in_tile = (unsigned)(end_target - tile < TILE ? end_target - tile : TILE);
            for (unsigned i = 0; i < in_tile; i++)
                insert(scores + list, indices + list, k, score_tile[threadIdx.x][i] * norm * target_norms[tile + i],
                       (unsigned)(tile + i));
        }
        // The next tile's first barrier comes before anybody writes scores again.
    }
}

extern "C" __global__ void row_inverse_norms_f32(const float *rows, float *norms, u64 count, u64 dim) {
    inverse_norms(rows, norms, count, dim);
}

extern "C" __global__ void row_inverse_norms_f16(const half_bits *rows, float *norms, u64 count, u64 dim) {
    inverse_norms(rows, norms, count, dim);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cosine_top_k_partial_f32(const float *queries, const float *targets, const float *query_norms, const float *target_norms,
                             float *scores, unsigned *indices, u64 query_count, u64 target_count, u64 dim, u64 chunk,
                             unsigned k) {
    partial(queries, targets, query_norms, target_norms, scores, indices, query_count, target_count, dim, chunk, k);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cosine_top_k_partial_f16(const float *queries, const half_bits *targets, const float *query_norms,
                             const float *target_norms, float *scores, unsigned *indices, u64 query_count, u64 target_count,
                             u64 dim, u64 chunk, unsigned k) {
    partial(queries, targets, query_norms, target_norms, scores, indices, query_count, target_count, dim, chunk, k);
}

// `scores` and `indices` hold `chunks` sorted lists a query, in the order of their targets.
extern "C" __global__ void cosine_top_k_merge(const float *scores, const unsigned *indices, float *best_scores,
                                              unsigned *best_indices, u64 query_count, u64 chunks, unsigned k) {
    u64 query = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (query >= query_count) return;
    float *best = best_scores + query * k;
    unsigned *best_index = best_indices + query * k;
    for (unsigned i = 0; i < k; i++) {
        best[i] = scores[query * chunks * k + i];
        best_index[i] = indices[query * chunks * k + i];
    }
    for (u64 chunk = 1; chunk < chunks; chunk++)
        for (unsigned i = 0; i < k; i++) {
            u64 from = (query * chunks + chunk) * k + i;
            // Sorted: what follows is no better.
            if (!(scores[from] > best[k - 1])) break;
            insert(best, best_index, k, scores[from], indices[from]);
        }
}
