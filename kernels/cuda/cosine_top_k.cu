// Batch cosine similarity with top-k: for each query the k targets with the highest cosine, in three launches.
//
//   row_scales            of each row a power of two and 1 / |row x power|, one warp for each row
//   cosine_top_k_partial  a block scores 64 queries against one chunk of targets, tile by tile in shared memory, and keeps the
//                         best k of the chunk for each query: the score matrix is never written
//   cosine_top_k_merge    the best k of a query's chunks, one thread for each entry of their lists
//
// The power of two brings the largest element of a row near 1: then no square and no product of a finite row overflows, and
// none that matters underflows.
//
// The order is always: the higher cosine first; for equal cosines the lower index first. A row of zeros has cosine 0 with every
// row. A NaN is in no list. Lists are rows of k. If a list has fewer than k targets, the remaining places have score -inf and
// index 0xffffffff.

#define NONE 0xffffffffu
#define ALL 0xffffffffu
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fffffff)

#define TILE 64      // queries and targets in a tile
#define DEPTH 16     // elements of a row in a tile
#define THREADS 256  // 16 x 16 threads, each with OWN x OWN scores
#define OWN 4
#define LINES (THREADS / DEPTH)  // rows that the block loads at once, one element a thread
#define WARPS (THREADS / 32)

typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(THREADS) row_scales(const float *rows, float2 *scales, u64 count, u64 dim) {
    u64 row = ((u64)blockIdx.x * THREADS + threadIdx.x) / 32;
    unsigned lane = threadIdx.x % 32;
    if (row >= count) return;
    rows += row * dim;
    float largest = 0.0f;
    for (u64 i = lane; i < dim; i += 32) largest = fmaxf(largest, fabsf(rows[i]));
    for (unsigned offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, offset));
    // 2^-e for a largest element of 2^e to 2^(e+1), as far as it is a normal number.
    int exponent = min(max(254 - (int)(__float_as_uint(largest) >> 23), 1), 254);
    float scale = __uint_as_float((unsigned)exponent << 23), sum = 0.0f;
    for (u64 i = lane; i < dim; i += 32) {
        float value = rows[i] * scale;
        sum = fmaf(value, value, sum);
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane == 0) scales[row] = make_float2(scale, sum > 0.0f ? 1.0f / sqrtf(sum) : 0.0f);
}

// Inserts a candidate that is better than the last score of a sorted list; the whole warp calls it together. Candidates come
// with ascending indices, so that an equal score stays behind existing ones. It works from the end of the list, 32 places at a
// time. Returns the new last score of the list.
static __device__ __forceinline__ float insert(float *scores, unsigned *indices, unsigned k, float score, unsigned index) {
    unsigned lane = threadIdx.x % 32;
    for (unsigned first = (k - 1) / 32 * 32;; first -= 32) {
        unsigned at = first + lane;
        bool moves = at > 0 && at < k && score > scores[at - 1], here = at < k && score > scores[at];
        float new_score = moves ? scores[at - 1] : score;
        unsigned new_index = moves ? indices[at - 1] : index;
        __syncwarp();
        if (here) scores[at] = new_score, indices[at] = new_index;
        __syncwarp();
        // The first of these places took the entry before it: more entries must move.
        if (!__shfl_sync(ALL, moves, 0)) return scores[k - 1];
    }
}

// Block (x, y): the lists of queries 64 x ... for the targets chunk x y ... .
extern "C" __global__ void __launch_bounds__(THREADS)
    cosine_top_k_partial(const float *queries, const float *targets, const float2 *query_scales, const float2 *target_scales,
                         float *scores, unsigned *indices, u64 query_count, u64 target_count, u64 dim, u64 chunk, unsigned k) {
    // Element by element; the distance of two elements is a multiple of 16 bytes.
    __shared__ __align__(16) float tile_q[DEPTH][TILE + 4], tile_t[DEPTH][TILE + 4];
    __shared__ float cosines[TILE][TILE + 1];

    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned line = threadIdx.x / 16 * OWN, column = threadIdx.x % 16 * OWN;
    unsigned element = threadIdx.x % DEPTH, row = threadIdx.x / DEPTH;
    u64 first_query = (u64)blockIdx.x * TILE, first_target = (u64)blockIdx.y * chunk;
    u64 end_target = min(first_target + chunk, target_count);

    // The lists of this block: that of query i begins at lists + i * stride. Each belongs to one warp.
    u64 stride = (u64)gridDim.y * k, lists = first_query * stride + (u64)blockIdx.y * k;
    for (unsigned i = warp; i < TILE && first_query + i < query_count; i += WARPS)
        for (unsigned j = lane; j < k; j += 32) scores[lists + i * stride + j] = -INFINITE, indices[lists + i * stride + j] = NONE;
    __syncwarp();

    for (u64 tile = first_target; tile < end_target; tile += TILE) {
        // Rows beyond the end: the last row again; its scores are not used.
        const float *query[TILE / LINES], *target[TILE / LINES];
        float query_scale[TILE / LINES], target_scale[TILE / LINES];
#pragma unroll
        for (unsigned l = 0; l < TILE / LINES; l++) {
            u64 q = min(first_query + row + l * LINES, query_count - 1), t = min(tile + row + l * LINES, target_count - 1);
            query[l] = queries + q * dim, query_scale[l] = query_scales[q].x;
            target[l] = targets + t * dim, target_scale[l] = target_scales[t].x;
        }
        float sums[OWN][OWN] = {};
        for (u64 begin = 0; begin < dim; begin += DEPTH) {
            u64 at = begin + element;
            float staged_q[TILE / LINES], staged_t[TILE / LINES];
#pragma unroll
            for (unsigned l = 0; l < TILE / LINES; l++) {
                staged_q[l] = at < dim ? query[l][at] * query_scale[l] : 0.0f;
                staged_t[l] = at < dim ? target[l][at] * target_scale[l] : 0.0f;
            }
            __syncthreads();
#pragma unroll
            for (unsigned l = 0; l < TILE / LINES; l++) {
                tile_q[element][row + l * LINES] = staged_q[l];
                tile_t[element][row + l * LINES] = staged_t[l];
            }
            __syncthreads();
            // A sum of its own for each tile: long chains of additions in single precision lose digits.
            float part[OWN][OWN] = {};
#pragma unroll
            for (unsigned i = 0; i < DEPTH; i++) {
                float4 four_q = *(const float4 *)&tile_q[i][line], four_t = *(const float4 *)&tile_t[i][column];
                float q[OWN] = {four_q.x, four_q.y, four_q.z, four_q.w}, t[OWN] = {four_t.x, four_t.y, four_t.z, four_t.w};
#pragma unroll
                for (unsigned a = 0; a < OWN; a++)
#pragma unroll
                    for (unsigned b = 0; b < OWN; b++) part[a][b] = fmaf(q[a], t[b], part[a][b]);
            }
#pragma unroll
            for (unsigned a = 0; a < OWN; a++)
#pragma unroll
                for (unsigned b = 0; b < OWN; b++) sums[a][b] += part[a][b];
        }
#pragma unroll
        for (unsigned b = 0; b < OWN; b++) {
            // No score is better than NaN, nor NaN than a score.
            u64 t = tile + column + b;
            float target_norm = t < end_target ? target_scales[t].y : NOT_A_NUMBER;
#pragma unroll
            for (unsigned a = 0; a < OWN; a++) {
                float query_norm = query_scales[min(first_query + line + a, query_count - 1)].y;
                cosines[line + a][column + b] = sums[a][b] * query_norm * target_norm;
            }
        }
        __syncthreads();
        for (unsigned i = warp; i < TILE && first_query + i < query_count; i += WARPS) {
            float *list = scores + lists + i * stride, last = list[k - 1];
            for (unsigned j = 0; j < TILE; j += 32) {
                float own = cosines[i][j + lane];
                for (unsigned better = __ballot_sync(ALL, own > last); better;) {
                    unsigned from = __ffs(better) - 1;
                    last = insert(list, indices + lists + i * stride, k, __shfl_sync(ALL, own, from), (unsigned)tile + j + from);
                    better = better & (better - 1) & __ballot_sync(ALL, own > last);
                }
            }
        }
    }
}

// `scores` and `indices` hold `chunks` sorted lists for each query. The place of an entry is the number of entries before it.
extern "C" __global__ void __launch_bounds__(THREADS)
    cosine_top_k_merge(const float *scores, const unsigned *indices, float *best_scores, unsigned *best_indices, u64 queries,
                       u64 chunks, unsigned k) {
    u64 entries = chunks * k;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < queries * entries; i += (u64)gridDim.x * THREADS) {
        u64 query = i / entries, own = i % entries / k, place = i % k;
        float score = scores[i];
        const float *list = scores + query * entries;
        for (u64 chunk = 0; chunk < chunks && place < k; chunk++, list += k) {
            if (chunk == own) continue;
            // How many of this list come before the entry. Of equal scores, those of an earlier chunk do.
            unsigned low = 0, high = k;
            while (low < high) {
                unsigned middle = (low + high) / 2;
                bool before = chunk < own ? list[middle] >= score : list[middle] > score;
                if (before) low = middle + 1;
                else high = middle;
            }
            place += low;
        }
        if (place < k) best_scores[query * k + place] = score, best_indices[query * k + place] = indices[i];
    }
}
