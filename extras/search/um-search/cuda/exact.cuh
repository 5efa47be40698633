// Common parts of the filters of the exact search: the layout of the tiles, the bound, thresholds and candidates.
// exact-search.md has the proof.
//
// Tiles: 128 rows x 64 elements of 16 bits (or 128 of 8), 16 KiB, one after the other along a row of tiles, so that a tile is
// loaded in one piece. Row r of a tile has 128 bytes. Its eight groups of 16 bytes are swapped by r % 8: this is the 128-byte swizzle of
// wgmma, and ldmatrix has no bank conflicts with it either. Rows and elements beyond the end are 0.
//
// Bounds: two numbers for each row, with y the row scaled by its inverse norm and y' the row in the tiles: `size` >= |y| and
// |y'|, and `error` >= |y - y'|. If the bound does not hold for a row (special: too large, too small, not finite; or beyond the
// end), the row has 0 in the tiles and the error +inf.
//
// Scales: in 8 bits, an element of a tile stands for itself times the scale of its row. The sums are exact integers; a score is
// fl(fl(fl(sum) * target's scale) * query's scale).

#pragma once

#include "rows.cuh"

#define BLOCK_Q 128   // queries of a block: one row of tiles
#define BLOCK_T 256   // targets of a block: two rows of tiles
#define TILE_BYTES (BLOCK_Q * 128)
#define STEPS 4       // steps of 32 bytes in a row of a tile
#define STAGE_BYTES (3 * TILE_BYTES)
#define GROUP 16      // group of targets; the sample keeps the best of each
// The targets of a group within a block.
#define GROUP_TARGET(group, j) ((group) / 4 * 64 + (group) % 4 * 2 + (j) / 2 * 8 + (j) % 2)
#define GROUPS (BLOCK_T / GROUP)

#define INFINITE __int_as_float(0x7f800000)

enum { BF16, F16, INT8 };
// Elements in a row of a tile.
#define TILE_K(format) ((format) == INT8 ? 128 : 64)

// The tensor cores' sums.
template <int FORMAT> struct Tensor {
    typedef float Sum;
};
template <> struct Tensor<INT8> {
    typedef int Sum;
};

// A score, in 8 bits without the query's scale.
static __device__ __forceinline__ float scaled(float sum, float) { return sum; }
static __device__ __forceinline__ float scaled(int sum, float target_scale) { return __fmul_rn(__int2float_rn(sum), target_scale); }

// |filter's score - exact score| <= this.
static __device__ __forceinline__ float error_bound(float2 query, float2 target, float kappa, float tiny) {
    float slope = __fmaf_ru(kappa, query.x, query.y);
    return __fmaf_ru(query.x, target.y, __fmaf_ru(slope, target.x, tiny));
}

// The i-th block of targets of a launch: of all blocks, of every period-th block, or (if the period is negative) of all others.
static __device__ __forceinline__ unsigned tile_at(unsigned i, int period) {
    return period == 0 ? i : period > 0 ? i * period : i + i / (-period - 1) + 1;
}

// Floats as integers with the same order; both zeros are equal.
static __device__ __forceinline__ unsigned ordered(float value) {
    unsigned bits = __float_as_uint(value + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float from_ordered(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

// The best score of a group of targets. In 8 bits its last bits have the target's place in the group, whose exact score is
// computed then; otherwise it is a lower bound of the exact score. Special targets do not count.
template <int FORMAT>
static __device__ __forceinline__ float best_of(const float (&scores)[GROUP], unsigned special, float query_scale, float error) {
    float high = -INFINITE;
#pragma unroll
    for (unsigned j = 0; j < GROUP; j++) {
        float score = scores[j];
        if (FORMAT == INT8) score = __uint_as_float((__float_as_uint(__fmul_rn(score, query_scale)) & ~15u) | j);
        if (!(special >> j & 1)) high = fmaxf(high, score);
    }
    return FORMAT == INT8 ? high : __fsub_rd(high, error);
}

// The memory for candidates.
struct Candidates {
    float *thresholds;  // at least k targets of the query have this exact score, or a higher one; +inf: the query goes to the fallback
    unsigned *counts;   // number of candidates of each query; the first `capacity` are kept
    uint2 *kept;        // target and the bits of the filter's score
    unsigned capacity;

    __device__ __forceinline__ void add(unsigned query, unsigned target, float score) const {
        unsigned at = atomicAdd(&counts[query], 1);
        if (at < capacity)
            kept[(u64)query * capacity + at] = make_uint2(target, __float_as_uint(score));
        else
            *(volatile float *)&thresholds[query] = INFINITE;
    }

};

// The parts of a query's threshold. They are loaded early, because loading takes time.
template <int FORMAT> struct Threshold {
    float exact, scale;
    float2 bound;

    __device__ __forceinline__ void load(const Candidates &candidates, const float2 *query_bounds, const float *query_scales,
                                         unsigned query, unsigned query_count) {
        bool exists = query < query_count;
        exact = exists ? *(volatile const float *)&candidates.thresholds[query] : INFINITE;
        bound = exists ? query_bounds[query] : make_float2(0.0f, 0.0f);
        if (FORMAT == INT8) scale = exists ? query_scales[query] : 1.0f;
    }

    // The threshold for the targets of a block, in 8 bits without the query's scale; `tile_bound` has the largest bounds of
    // these targets.
    __device__ __forceinline__ float from(float2 tile_bound, float kappa, float tiny) const {
        float least = __fsub_rd(exact, error_bound(bound, tile_bound, kappa, tiny));
        return FORMAT == INT8 ? __fdiv_rd(least, scale) : least;
    }
};

// The score with number `at`. The scores are in registers, which have no addresses.
static __device__ __forceinline__ float pick(const float (&scores)[GROUP], unsigned at) {
    float eight[8], four[4];
#pragma unroll
    for (unsigned i = 0; i < 8; i++) eight[i] = at & 1 ? scores[2 * i + 1] : scores[2 * i];
#pragma unroll
    for (unsigned i = 0; i < 4; i++) four[i] = at & 2 ? eight[2 * i + 1] : eight[2 * i];
    float low = at & 4 ? four[1] : four[0], high = at & 4 ? four[3] : four[2];
    return at & 8 ? high : low;
}

// A warp's candidates in shared memory, at most MOST.
template <unsigned MOST> struct Hits {
    uint3 *kept;
    unsigned *count;

    __device__ __forceinline__ void add(const Candidates &to, unsigned query, unsigned target, float score) const {
        unsigned at = atomicAdd(count, 1);
        if (at < MOST)
            kept[at] = make_uint3(query, target, __float_as_uint(score));
        else
            to.add(query, target, score);
    }

    // Adds a thread's scores of one query that are at least `least`; `target(j)` is the target of the j-th score.
    template <int FORMAT, typename Target>
    __device__ __forceinline__ void take(const Candidates &to, unsigned query, const float *query_scales, float least,
                                         const float (&scores)[GROUP], unsigned target_count, Target target) const {
        float high = scores[0];
#pragma unroll
        for (unsigned j = 1; j < GROUP; j++) high = fmaxf(high, scores[j]);
        if (high < least) return;
        unsigned found = 0;
#pragma unroll
        for (unsigned j = 0; j < GROUP; j++) found |= (scores[j] >= least ? 1u : 0u) << j;
#pragma unroll 1
        for (; found; found &= found - 1) {
            unsigned j = __ffs(found) - 1;
            if (target(j) >= target_count) continue;
            float score = pick(scores, j);
            add(to, query, target(j), FORMAT == INT8 ? __fmul_rn(score, query_scales[query]) : score);
        }
    }

    // The whole warp calls it together.
    __device__ __forceinline__ void flush(const Candidates &to, unsigned least) const {
        __syncwarp();
        unsigned count = *(volatile unsigned *)this->count;
        if (count < least) return;
        for (unsigned i = threadIdx.x % 32; i < (count < MOST ? count : MOST); i += 32)
            to.add(kept[i].x, kept[i].y, __uint_as_float(kept[i].z));
        __syncwarp();
        if (threadIdx.x % 32 == 0) *(volatile unsigned *)this->count = 0;
        __syncwarp();
    }
};
