// Batch cosine similarity with top-k: for each query the k targets of the highest cosine, in three launches.
//
//   row_inverse_norms       1 / |row|, a warp a row
//   cosine_top_k_partial    a block scores 128 queries against one chunk of targets, tile by tile in shared memory, and keeps the
//                           best k of the chunk for each query: the score matrix is never written
//   cosine_top_k_merge      the best k of a query's chunks
//
// Order everywhere: the higher cosine first, among equal ones the lower index. A row of zeros has norm 0 and cosine 0 with all.
// Lists are rows of k; places that a chunk shorter than k leaves open have score -inf and index 0xffffffff.

#define TILE 128      // queries and targets in a tile
#define DEPTH 16      // elements of a vector in a tile
#define THREADS 256   // 16 x 16 threads, each with 8 x 8 scores
#define STRIDE (TILE + 4)  // of a tile's rows: a multiple of four floats, and rows begin in other banks
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

// Eight elements of a row from `at` on; zeros beyond its end.
static __device__ __forceinline__ void load_eight(const float *row, u64 at, u64 dim, bool whole, float *out) {
    if (whole) {
        float4 low = *(const float4 *)(row + at), high = *(const float4 *)(row + at + 4);
        out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
        out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
    } else {
#pragma unroll
        for (unsigned i = 0; i < 8; i++) out[i] = at + i < dim ? row[at + i] : 0.0f;
    }
}

static __device__ __forceinline__ void load_eight(const half_bits *row, u64 at, u64 dim, bool whole, float *out) {
    if (whole) {
        uint4 bits = *(const uint4 *)(row + at);
        unsigned pairs[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (unsigned i = 0; i < 8; i++) out[i] = to_float((half_bits)(pairs[i / 2] >> (i % 2 * 16)));
    } else {
#pragma unroll
        for (unsigned i = 0; i < 8; i++) out[i] = at + i < dim ? to_float(row[at + i]) : 0.0f;
    }
}

// Whether groups of eight elements may be loaded at once wherever they begin.
template <typename T> static __device__ __forceinline__ bool aligned(const T *rows, u64 dim) {
    return (u64)rows % 16 == 0 && dim * sizeof(T) % 16 == 0;
}

// Puts a candidate into a list that is sorted; it belongs there. Candidates come with rising indices, so that an equal score stays
// behind what is there. Returns the list's new last score.
static __device__ __forceinline__ float insert(float *scores, unsigned *indices, unsigned k, float score, unsigned index) {
    unsigned place = k - 1;
    while (place > 0 && score > scores[place - 1]) {
        scores[place] = scores[place - 1];
        indices[place] = indices[place - 1];
        place -= 1;
    }
    scores[place] = score;
    indices[place] = index;
    return scores[k - 1];
}

// Not static: its shared array would get a name that depends on where this file lies.
template <typename T>
__device__ __forceinline__ void partial(const float *queries, const T *targets, const float *query_norms,
                                        const float *target_norms, float *scores, unsigned *indices, u64 query_count,
                                        u64 target_count, u64 dim, u64 chunk, unsigned k) {
    // Two pairs of tiles, of which one is read while the other is written; between them the scores of half a tile.
    __shared__ __align__(16) float memory[2 * 2 * DEPTH * STRIDE];
    float(*tiles)[2][DEPTH][STRIDE] = (float(*)[2][DEPTH][STRIDE])memory;
    float(*score_tile)[TILE / 2 + 1] = (float(*)[TILE / 2 + 1]) memory;

    u64 first_query = (u64)blockIdx.x * TILE;
    u64 first_target = (u64)blockIdx.y * chunk;
    u64 end_target = first_target + chunk < target_count ? first_target + chunk : target_count;
    // A warp has 4 lines of 8 columns: of what its threads load from shared memory, much is the same.
    unsigned column = threadIdx.x % 8 + threadIdx.x / 32 % 2 * 8, line = threadIdx.x / 8 % 4 + threadIdx.x / 64 * 4;

    // Each thread loads eight elements of one query and of one target.
    unsigned row = threadIdx.x % TILE, part = threadIdx.x / TILE * 8;
    const float *query = first_query + row < query_count ? queries + (first_query + row) * dim : 0;
    bool whole_query = query && aligned(queries, dim), whole_target = aligned(targets, dim);

    // Threads below TILE own a query's list each.
    u64 own_query = first_query + threadIdx.x;
    bool owner = threadIdx.x < TILE && own_query < query_count;
    u64 list = (own_query * gridDim.y + blockIdx.y) * k;
    float norm = 0.0f, worst = __int_as_float(0xff800000);
    if (owner) {
        norm = query_norms[own_query];
        for (unsigned i = 0; i < k; i++) {
            scores[list + i] = worst;
            indices[list + i] = NONE;
        }
    }

    for (u64 tile = first_target; tile < end_target; tile += TILE) {
        const T *target = tile + row < end_target ? targets + (tile + row) * dim : 0;
        float sums[8][8] = {};
        float query_part[8], target_part[8];
        // One turn more than there are tiles: each turn computes with what the turn before stored.
        for (u64 depth = 0; depth < dim + DEPTH; depth += DEPTH) {
            unsigned turn = (unsigned)(depth / DEPTH) % 2;
            u64 at = depth + part;
            bool more = depth < dim;
            if (more) {
                bool inside = at + 8 <= dim;
                load_eight(query, at, query ? dim : 0, whole_query && inside, query_part);
                load_eight(target, at, target ? dim : 0, target && whole_target && inside, target_part);
            }
            if (depth > 0) {
#pragma unroll
                for (unsigned i = 0; i < DEPTH; i++) {
                    float q[8], t[8];
#pragma unroll
                    for (unsigned half = 0; half < 2; half++) {
                        float4 four = *(float4 *)&tiles[turn ^ 1][0][i][line * 4 + half * (TILE / 2)];
                        q[half * 4] = four.x, q[half * 4 + 1] = four.y, q[half * 4 + 2] = four.z, q[half * 4 + 3] = four.w;
                        four = *(float4 *)&tiles[turn ^ 1][1][i][column * 4 + half * (TILE / 2)];
                        t[half * 4] = four.x, t[half * 4 + 1] = four.y, t[half * 4 + 2] = four.z, t[half * 4 + 3] = four.w;
                    }
#pragma unroll
                    for (unsigned a = 0; a < 8; a++)
#pragma unroll
                        for (unsigned b = 0; b < 8; b++) sums[a][b] = fmaf(q[a], t[b], sums[a][b]);
                }
            }
            if (more) {
#pragma unroll
                for (unsigned i = 0; i < 8; i++) {
                    tiles[turn][0][part + i][row] = query_part[i];
                    tiles[turn][1][part + i][row] = target_part[i];
                }
            }
            __syncthreads();
        }
        // Halves of the targets, since the scores of all do not fit. Unrolled: registers have no addresses.
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
#pragma unroll
            for (unsigned a = 0; a < 8; a++)
#pragma unroll
                for (unsigned b = 0; b < 4; b++)
                    score_tile[line * 4 + a % 4 + a / 4 * (TILE / 2)][column * 4 + b] = sums[a][half * 4 + b];
            __syncthreads();
            u64 first = tile + half * (TILE / 2);
            if (owner && first < end_target) {
                unsigned count = (unsigned)(end_target - first < TILE / 2 ? end_target - first : TILE / 2);
                // Eight at a time, since few belong into the list and none of them waits for another.
                for (unsigned i = 0; i < count; i += 8) {
                    float eight[8];
#pragma unroll
                    for (unsigned j = 0; j < 8; j++)
                        eight[j] = i + j < count ? score_tile[threadIdx.x][i + j] * norm * target_norms[first + i + j] : worst;
#pragma unroll
                    for (unsigned j = 0; j < 8; j++)
                        if (eight[j] > worst)
                            worst = insert(scores + list, indices + list, k, eight[j], (unsigned)(first + i + j));
                }
            }
            __syncthreads();
        }
    }
}

extern "C" __global__ void row_inverse_norms_f32(const float *rows, float *norms, u64 count, u64 dim) {
    inverse_norms(rows, norms, count, dim);
}

extern "C" __global__ void row_inverse_norms_f16(const half_bits *rows, float *norms, u64 count, u64 dim) {
    inverse_norms(rows, norms, count, dim);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    cosine_top_k_partial_f32(const float *queries, const float *targets, const float *query_norms, const float *target_norms,
                             float *scores, unsigned *indices, u64 query_count, u64 target_count, u64 dim, u64 chunk,
                             unsigned k) {
    partial(queries, targets, query_norms, target_norms, scores, indices, query_count, target_count, dim, chunk, k);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
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
