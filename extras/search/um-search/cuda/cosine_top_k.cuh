// Lists of the best targets of each query, for a chunk of the targets and merged: see cosine_top_k.cu.

#pragma once

#include "rows.cuh"

#define TILE 128                        // queries and targets in a tile
#define HALF (TILE / 2)
#define DEPTH 16                        // elements of a vector in a tile
#define THREADS 256                     // 16 x 16 threads, each with 8 x 8 scores
#define OWN (TILE / (THREADS / 32))     // number of queries for which a warp keeps the lists
#define LOADED (THREADS / (DEPTH / 4))  // rows that the block loads at once, four elements a thread
#define TIMES (TILE / LOADED)
#define SCORES (HALF + 4)               // distance between the scores of two queries
// Start of element i of all rows in a tile: the stores of a warp go to 32 different banks.
#define BEGIN(i) ((i) * (TILE + 4) + (i) / 8 * 8)

// The norm of a target. Beyond the end it is NaN, so that no score is better than another.
static __device__ __forceinline__ float norm_or_nan(const float *norms, u64 at, u64 end) {
    return at < end ? fabsf(norms[at]) : __int_as_float(0x7fffffff);
}

// Inserts a candidate that belongs into a sorted list; the whole warp calls it together. Candidates come with ascending
// indices, so that an equal score stays behind existing ones. It works from the end of the list, 32 places at a time. Returns
// the new last score of the list.
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

// The list of a query while the whole warp takes candidates for it. A warp holds a short list in registers, one place for each lane.
struct List {
    float *scores;
    unsigned *indices;
    unsigned k;
    float score;
    unsigned index;

    __device__ __forceinline__ List(float *scores, unsigned *indices, unsigned k)
        : scores(scores), indices(indices), k(k), score(0.0f), index(0) {
        unsigned lane = threadIdx.x % 32;
        if (k <= 32 && lane < k) score = scores[lane], index = indices[lane];
    }

    // Takes those of 32 scores, one for each lane, that are better than the last score of the list. Returns the new last score.
    __device__ __forceinline__ float take(float own, unsigned first_index, float last) {
        unsigned lane = threadIdx.x % 32, better = __ballot_sync(ALL, own > last);
        while (better) {
            unsigned from = __ffs(better) - 1, candidate_index = first_index + from;
            float candidate = __shfl_sync(ALL, own, from);
            if (k <= 32) {
                float before = __shfl_up_sync(ALL, score, 1);
                unsigned before_index = __shfl_up_sync(ALL, index, 1);
                bool moves = lane > 0 && candidate > before;
                if (candidate > score) score = moves ? before : candidate, index = moves ? before_index : candidate_index;
                last = __shfl_sync(ALL, score, k - 1);
            } else {
                last = insert(scores, indices, k, candidate, candidate_index);
            }
            better = better & (better - 1) & __ballot_sync(ALL, own > last);
        }
        return last;
    }

    __device__ __forceinline__ void end() {
        unsigned lane = threadIdx.x % 32;
        if (k <= 32 && lane < k) scores[lane] = score, indices[lane] = index;
        __syncwarp();
    }
};

// Takes those of a query's scores for half a tile that are better than `last` into its list; the whole warp calls it together.
// Returns the new last score of the list. `row_scores` begins at the lane's first score.
static __device__ __forceinline__ float take(const float *row_scores, float query_norm, float last, const float *target_norms,
                                             u64 first, u64 end, float *scores, unsigned *indices, unsigned k) {
    unsigned lane = threadIdx.x % 32;
    List list(scores, indices, k);
#pragma unroll 1
    for (unsigned j = 0; j < HALF; j += 32) {
        float own = row_scores[j] * query_norm * norm_or_nan(target_norms, first + j + lane, end);
        last = list.take(own, (unsigned)first + j, last);
    }
    list.end();
    return last;
}

// Not static: otherwise the name of its shared array would depend on the path of this file.
template <typename T>
__device__ __forceinline__ void partial(const float *queries, const T *targets, const float *query_norms,
                                        const float *target_norms, float *scores, unsigned *indices, u64 query_count,
                                        u64 target_count, u64 dim, u64 chunk, unsigned k) {
    // Two pairs of tiles: one is read while the other is written. Between them are the scores of half a tile.
    constexpr unsigned PAIR = 2 * BEGIN(DEPTH);
    __shared__ __align__(16) float memory[2 * PAIR > TILE * SCORES ? 2 * PAIR : TILE * SCORES];

    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // A warp has 4 lines of 8 columns, so many of its loads from shared memory are equal. Adjacent lanes belong to two lines,
    // so that the warp's loads of 16 bytes need half as many cycles.
    unsigned column = lane / 2 % 8 + warp % 2 * 8, line = lane % 2 + lane / 16 * 2 + warp / 2 * 4;
    u64 first_query = (u64)blockIdx.x * TILE, first_target = (u64)blockIdx.y * chunk;
    u64 end_target = first_target + chunk < target_count ? first_target + chunk : target_count;

    // Each thread loads four elements of TIMES queries and targets, so that adjacent threads load adjacent memory.
    unsigned part = threadIdx.x % (DEPTH / 4) * 4, row = threadIdx.x / (DEPTH / 4);
    // Stages of DEPTH elements. In an incomplete stage, each element is checked.
    unsigned stages = (unsigned)((dim + DEPTH - 1) / DEPTH);
    unsigned whole = aligned(queries, dim) && aligned(targets, dim) ? (unsigned)(dim / DEPTH) : 0;

    // The lists of a warp's queries: row i of `scores` begins at list + i * lists.
    u64 own_query = first_query + warp * OWN;
    u64 lists = (u64)gridDim.y * k, list = own_query * lists + (u64)blockIdx.y * k;
    for (unsigned i = 0; i < OWN && own_query + i < query_count; i++)
        for (unsigned j = lane; j < k; j += 32) {
            scores[list + i * lists + j] = __int_as_float(0xff800000);
            indices[list + i * lists + j] = NONE;
        }
    __syncwarp();

    for (u64 tile = first_target; tile < end_target; tile += TILE) {
        const float *query[TIMES];
        const T *target[TIMES];
        float power[TIMES];
        // Rows beyond the end: the last row again; its scores are not used.
#pragma unroll
        for (unsigned l = 0; l < TIMES; l++) {
            u64 at = first_query + row + l * LOADED;
            query[l] = queries + (at < query_count ? at : query_count - 1) * dim + part;
        }
#pragma unroll
        for (unsigned l = 0; l < TIMES; l++) {
            u64 at = tile + row + l * LOADED;
            at = at < target_count ? at : target_count - 1;
            target[l] = targets + at * dim + part, power[l] = row_power(target_norms[at]);
        }
        float sums[8][8] = {}, staged_q[TIMES][4], staged_t[TIMES][4];

        auto load = [&](unsigned stage) {
            if (stage < whole) {
#pragma unroll
                for (unsigned l = 0; l < TIMES; l++) load_four(query[l], staged_q[l]);
#pragma unroll
                for (unsigned l = 0; l < TIMES; l++) load_four(target[l], staged_t[l]);
            } else {
                u64 at = (u64)stage * DEPTH + part;
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
#pragma unroll
                    for (unsigned l = 0; l < TIMES; l++) staged_q[l][i] = at + i < dim ? query[l][i] : 0.0f;
#pragma unroll
                    for (unsigned l = 0; l < TIMES; l++) staged_t[l][i] = at + i < dim ? to_float(target[l][i]) : 0.0f;
                }
            }
#pragma unroll
            for (unsigned l = 0; l < TIMES; l++) query[l] += DEPTH;
#pragma unroll
            for (unsigned l = 0; l < TIMES; l++) target[l] += DEPTH;
        };
        auto store = [&](float *pair) {
            float *to = pair + BEGIN(part) + row;
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
#pragma unroll
                for (unsigned l = 0; l < TIMES; l++) to[BEGIN(i) + l * LOADED] = staged_q[l][i];
#pragma unroll
                for (unsigned l = 0; l < TIMES; l++) to[BEGIN(DEPTH) + BEGIN(i) + l * LOADED] = staged_t[l][i] * power[l];
            }
        };

        unsigned turn = 0;
        load(0);
        store(memory);
        __syncthreads();
#pragma unroll 1
        for (unsigned stage = 1;; stage++) {
            bool more = stage < stages;
            if (more) load(stage);
            const float *from_q = memory + turn + line * 4, *from_t = memory + turn + BEGIN(DEPTH) + column * 4;
#pragma unroll
            for (unsigned i = 0; i < DEPTH; i++) {
                float q[8], t[8];
#pragma unroll
                for (unsigned half = 0; half < 2; half++) load_four(from_q + BEGIN(i) + half * HALF, q + half * 4);
#pragma unroll
                for (unsigned half = 0; half < 2; half++) load_four(from_t + BEGIN(i) + half * HALF, t + half * 4);
#pragma unroll
                for (unsigned a = 0; a < 8; a++)
#pragma unroll
                    for (unsigned b = 0; b < 8; b++) sums[a][b] = fmaf(q[a], t[b], sums[a][b]);
            }
            if (!more) break;
            turn = PAIR - turn;
            store(memory + turn);
            __syncthreads();
        }

        // Each warp processes its queries' scores. Lane i has the values of query i. Nothing is better than infinity.
        float norm = 0.0f, worst = __int_as_float(0x7f800000);
        if (lane < OWN && own_query + lane < query_count) {
            norm = query_norms[own_query + lane];
            worst = scores[list + lane * lists + k - 1];
        }
        // Half of the targets at a time, because the scores of all do not fit. Unrolled, because registers have no addresses.
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
            __syncthreads();
#pragma unroll
            for (unsigned a = 0; a < 8; a++)
                *(float4 *)&memory[(line * 4 + a % 4 + a / 4 * HALF) * SCORES + column * 4] =
                    make_float4(sums[a][half * 4], sums[a][half * 4 + 1], sums[a][half * 4 + 2], sums[a][half * 4 + 3]);
            __syncthreads();
            u64 first = tile + half * HALF;
            float low_norm = norm_or_nan(target_norms, first + lane, end_target);
            float high_norm = norm_or_nan(target_norms, first + 32 + lane, end_target);
            const float *row_scores = memory + warp * OWN * SCORES + lane;
            // First find the queries that have a score for their list: there are few of them, and they are independent of each
            // other.
            unsigned rows = 0;
#pragma unroll 4
            for (unsigned i = 0; i < OWN; i++) {
                float query_norm = __shfl_sync(ALL, norm, i), last = __shfl_sync(ALL, worst, i);
                bool low = row_scores[i * SCORES] * query_norm * low_norm > last;
                bool high = row_scores[i * SCORES + 32] * query_norm * high_norm > last;
                if (__any_sync(ALL, low | high)) rows |= 1u << i;
            }
            for (; rows; rows &= rows - 1) {
                unsigned i = __ffs(rows) - 1;
                float query_norm = __shfl_sync(ALL, norm, i), last = __shfl_sync(ALL, worst, i);
                last = take(row_scores + i * SCORES, query_norm, last, target_norms, first, end_target,
                            scores + list + i * lists, indices + list + i * lists, k);
                if (lane == i) worst = last;
            }
        }
        __syncthreads();
    }
}

// `scores` and `indices` hold `chunks` sorted lists for each query. For each place, take the best head of all lists; of equal heads,
// that of the lower index. The whole warp calls it together. Shared memory: 10 bytes for each chunk.
static __device__ __forceinline__ void merge(const float *scores, const unsigned *indices, float *best_scores,
                                             unsigned *best_indices, u64 query, u64 to, u64 chunks, unsigned k, float *memory) {
    unsigned lane = threadIdx.x, lists = (unsigned)chunks;
    scores += query * chunks * k, indices += query * chunks * k;
    // The first entry of each list that is not taken. Each is used by only one lane.
    float *head_scores = memory;
    unsigned *head_indices = (unsigned *)(head_scores + lists);
    unsigned short *heads = (unsigned short *)(head_indices + lists);
#pragma unroll 8
    for (unsigned list = lane; list < lists; list += 32)
        head_scores[list] = scores[(u64)list * k], head_indices[list] = indices[(u64)list * k], heads[list] = 0;
    for (unsigned place = 0; place < k; place++) {
        float own = __int_as_float(0xff800000);
        unsigned own_index = NONE, from = 0;
#pragma unroll 4
        for (unsigned list = lane; list < lists; list += 32) {
            float score = head_scores[list];
            unsigned index = head_indices[list];
            if (score > own || (score == own && index < own_index)) own = score, own_index = index, from = list;
        }
        float best = own;
        unsigned index = own_index;
        for (unsigned offset = 16; offset > 0; offset /= 2) {
            float other = __shfl_xor_sync(ALL, best, offset);
            unsigned other_index = __shfl_xor_sync(ALL, index, offset);
            if (other > best || (other == best && other_index < index)) best = other, index = other_index;
        }
        if (index == NONE ? lane == 0 : index == own_index) {
            best_scores[to * k + place] = own, best_indices[to * k + place] = index;
            if (index == NONE) continue;
            unsigned head = ++heads[from];
            u64 next = (u64)from * k + head;
            head_scores[from] = head < k ? scores[next] : __int_as_float(0xff800000), head_indices[from] = head < k ? indices[next] : NONE;
        }
    }
}
