// The filter of the exact search on tensor cores, from compute capability 8.0 on (mma.sync). A block processes 128 queries x
// 256 targets at a time, each of its 8 warps 64 x 64. Loads run up to three stages ahead, also beyond the end of a tile. No
// scores are written:
//
//   exact_sample   the best score of every 16 targets of some tiles, minus its error: the thresholds are computed from these
//   exact_filter   the few targets that may be in a query's list

#include "exact.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
// With two stages, a block uses the 99 KiB that compute capability 8.6 allows.
#define HITS(format) ((format) == INT8 ? 15 : 20)

static __device__ __forceinline__ unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

template <int FORMAT>
static __device__ __forceinline__ void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if (FORMAT == F16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int FORMAT>
static __device__ __forceinline__ void multiply(int (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void load_matrices(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// Calls `finish(query_tile, target_tile, sums)` for this block's pairs of tiles, `begin` before each pair, and `share` before
// the last barriers.
template <int FORMAT, typename Begin, typename Share, typename Finish>
static __device__ __forceinline__ void products(const char *query_tiles, const char *target_tiles, unsigned query_count,
                                                unsigned pairs, int period, unsigned blocks, unsigned stages, char *memory,
                                                Begin begin, Share share, Finish finish) {
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, line = warp / 4, column = warp % 4;
    unsigned groups = (query_count + BLOCK_Q - 1) / BLOCK_Q;
    unsigned base = shared_address(memory);

    // The position of the next load: stage by stage, tile by tile.
    unsigned next_pair = blockIdx.x, next_block = 0, next_stage = 0;
    u64 second = (u64)blocks * TILE_BYTES - TILE_BYTES;
    auto load = [&]() {
        if (next_pair < pairs) {
            u64 target = (u64)tile_at(next_pair / groups, period) * 2;
            const char *from_q = query_tiles + ((u64)(next_pair % groups) * blocks + next_block) * TILE_BYTES + threadIdx.x * 16;
            const char *from_t = target_tiles + (target * blocks + next_block) * TILE_BYTES + threadIdx.x * 16;
            unsigned to = base + next_stage * STAGE_BYTES + threadIdx.x * 16;
#pragma unroll
            for (unsigned i = 0; i < STAGE_BYTES; i += THREADS * 16) {
                const char *from = i < TILE_BYTES ? from_q + i : from_t + (i - TILE_BYTES) + (i < 2 * TILE_BYTES ? 0 : second);
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i), "l"(from) : "memory");
            }
            if (++next_block == blocks) next_block = 0, next_pair += gridDim.x;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (++next_stage == stages) next_stage = 0;
    };
    // Waits until the next stage has arrived for all warps, and until no warp reads the stage that is loaded next.
    auto arrives = [&]() {
        if (stages == 4)
            asm volatile("cp.async.wait_group 2;" ::: "memory");
        else if (stages == 3)
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        else
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
    };

    // The lane's part of addresses: its row, and its group of 16 bytes before swapping.
    unsigned row_q = line * 64 + lane % 16, part_q = lane / 16;
    unsigned row_t = column * 64 + lane % 8 + lane / 16 * 8, part_t = lane / 8 % 2;
    unsigned from_q = base + row_q * 128, from_t = base + TILE_BYTES + row_t * 128;
    // The elements of each step are loaded while those of the previous step are multiplied.
    unsigned q[2][4][4], t[2][4][4], stage = 0;
    auto fetch = [&](unsigned step) {
        unsigned at = stage * STAGE_BYTES;
        unsigned chunk_q = ((step * 2 + part_q) ^ (row_q % 8)) * 16, chunk_t = ((step * 2 + part_t) ^ (row_t % 8)) * 16;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) load_matrices(q[step % 2][i], at + from_q + i * 16 * 128 + chunk_q);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) load_matrices(t[step % 2][i], at + from_t + i * 16 * 128 + chunk_t);
    };
    for (unsigned ahead = 0; ahead + 1 < stages; ahead++) load();
    if (blockIdx.x < pairs) {
        arrives();
        fetch(0);
    }
    for (unsigned pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
        unsigned query_tile = pair % groups, target_tile = tile_at(pair / groups, period);
        begin(query_tile, target_tile);
        typename Tensor<FORMAT>::Sum sums[4][8][4] = {};
#pragma unroll 1
        for (unsigned block = 0; block < blocks; block++) {
            load();
            if (block + 1 == blocks) share();
#pragma unroll
            for (unsigned step = 0; step < STEPS; step++) {
                if (step + 1 < STEPS) {
                    fetch(step + 1);
                } else {
                    if (++stage == stages) stage = 0;
                    arrives();
                    fetch(0);
                }
#pragma unroll
                for (unsigned i = 0; i < 4; i++)
#pragma unroll
                    for (unsigned j = 0; j < 8; j++)
                        multiply<FORMAT>(sums[i][j], q[step % 2][i], t[step % 2][j / 2][j % 2 * 2], t[step % 2][j / 2][j % 2 * 2 + 1]);
            }
        }
        finish(query_tile, target_tile, sums);
    }
}

// A thread has 16 scores of one query: a group.
#define TARGET(j) GROUP_TARGET(column * 4 + lane % 4, j)
#define SCORE(i, half, j) scaled(sums[i][(j) / 2][(half) * 2 + (j) % 2], scales[j])
#define SUMS typename Tensor<FORMAT>::Sum(&sums)[4][8][4]

template <int FORMAT>
__device__ __forceinline__ void sample(const char *query_tiles, const char *target_tiles, const float2 *query_bounds,
                                              const float2 *target_bounds, const float2 *tile_bounds,
                                              const float *query_scales, const float *target_scales, float *best, unsigned query_count, unsigned sampled, int period, unsigned blocks, float kappa,
                                              float tiny, unsigned stages) {
    extern __shared__ __align__(1024) char memory[];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, line = warp / 4, column = warp % 4;
    unsigned pairs = (query_count + BLOCK_Q - 1) / BLOCK_Q * sampled;
    auto begin = [](unsigned, unsigned) {};
    auto share = []() {};
    auto finish = [&](unsigned query_tile, unsigned target_tile, SUMS) {
        const float2 *bounds = target_bounds + (u64)target_tile * BLOCK_T;
        unsigned special = 0;
#pragma unroll
        for (unsigned j = 0; j < GROUP; j++) special |= (bounds[TARGET(j)].y == INFINITE ? 1u : 0u) << j;
        float scales[GROUP] = {};
        if (FORMAT == INT8)
#pragma unroll
            for (unsigned j = 0; j < GROUP; j++) scales[j] = target_scales[(u64)target_tile * BLOCK_T + TARGET(j)];
        float2 tile_bound = tile_bounds[target_tile];
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            unsigned query = query_tile * BLOCK_Q + line * 64 + i * 8 + lane / 4;
            if (query >= query_count) continue;
            float scores[GROUP];
#pragma unroll
            for (unsigned j = 0; j < GROUP; j++) scores[j] = SCORE(i / 2, i % 2, j);
            float error = error_bound(query_bounds[query], tile_bound, kappa, tiny), scale = FORMAT == INT8 ? query_scales[query] : 1.0f;
            best[((u64)query * sampled + target_tile / period) * GROUPS + column * 4 + lane % 4] =
                best_of<FORMAT>(scores, special, scale, error);
        }
    };
    products<FORMAT>(query_tiles, target_tiles, query_count, pairs, period, blocks, stages, memory, begin, share, finish);
}

// Not static: otherwise the names of its shared arrays would depend on the path of this file.
template <int FORMAT>
__device__ __forceinline__ void filter(const char *query_tiles, const char *target_tiles, const float2 *query_bounds,
                                       const float2 *tile_bounds, const float *query_scales, const float *target_scales,
                                       Candidates candidates, unsigned query_count, unsigned target_count, unsigned tiles, int period,
                                       unsigned blocks, float kappa, float tiny, unsigned stages) {
    extern __shared__ __align__(1024) char memory[];
    __shared__ float from[BLOCK_Q], scale[FORMAT == INT8 ? BLOCK_T : 1];
    __shared__ uint3 kept[WARPS][HITS(FORMAT)];
    __shared__ unsigned counts[WARPS];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, line = warp / 4, column = warp % 4;
    unsigned pairs = (query_count + BLOCK_Q - 1) / BLOCK_Q * tiles;
    Hits<HITS(FORMAT)> hits = {kept[warp], &counts[warp]};
    if (lane == 0) counts[warp] = 0;
    Threshold<FORMAT> threshold;
    float2 tile_bound;
    float own_scale;
    auto begin = [&](unsigned query_tile, unsigned target_tile) {
        if (FORMAT == INT8) own_scale = target_scales[(u64)target_tile * BLOCK_T + threadIdx.x];
        if (threadIdx.x >= BLOCK_Q) return;
        threshold.load(candidates, query_bounds, query_scales, query_tile * BLOCK_Q + threadIdx.x, query_count);
        tile_bound = tile_bounds[target_tile];
    };
    // Slower warps may still read the last pair's, if no barrier of this pair has come yet.
    auto share = [&]() {
        if (blocks == 1) __syncthreads();
        if (FORMAT == INT8) scale[threadIdx.x] = own_scale;
        if (threadIdx.x < BLOCK_Q) from[threadIdx.x] = threshold.from(tile_bound, kappa, tiny);
    };
    auto finish = [&](unsigned query_tile, unsigned target_tile, SUMS) {
        float scales[GROUP] = {};
        if (FORMAT == INT8)
#pragma unroll
            for (unsigned j = 0; j < GROUP; j++) scales[j] = scale[TARGET(j)];
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            unsigned row = line * 64 + i * 8 + lane / 4;
            float scores[GROUP];
#pragma unroll
            for (unsigned j = 0; j < GROUP; j++) scores[j] = SCORE(i / 2, i % 2, j);
            hits.template take<FORMAT>(candidates, query_tile * BLOCK_Q + row, query_scales, from[row], scores, target_count,
                                       [&](unsigned j) { return target_tile * BLOCK_T + TARGET(j); });
        }
        hits.flush(candidates, HITS(FORMAT) / 2);
    };
    products<FORMAT>(query_tiles, target_tiles, query_count, pairs, period, blocks, stages, memory, begin, share, finish);
    hits.flush(candidates, 1);
}

#define ENTRIES(name, FORMAT)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) exact_sample_##name(                                                 \
        const char *query_tiles, const char *target_tiles, const float2 *query_bounds, const float2 *target_bounds,               \
        const float2 *tile_bounds, const float *query_scales, const float *target_scales, float *best, unsigned query_count,      \
        unsigned sampled, int period, unsigned blocks, float kappa, float tiny, unsigned stages) {                                \
        sample<FORMAT>(query_tiles, target_tiles, query_bounds, target_bounds, tile_bounds, query_scales, target_scales, best,    \
                       query_count, sampled, period, blocks, kappa, tiny, stages);                                                \
    }                                                                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) exact_filter_##name(                                                 \
        const char *query_tiles, const char *target_tiles, const float2 *query_bounds, const float2 *tile_bounds,                 \
        const float *query_scales, const float *target_scales, float *thresholds, unsigned *counts, uint2 *kept,                  \
        unsigned capacity, unsigned query_count, unsigned target_count, unsigned tiles, int period, unsigned blocks, float kappa, \
        float tiny, unsigned stages) {                                                                                            \
        Candidates candidates = {thresholds, counts, kept, capacity};                                                             \
        filter<FORMAT>(query_tiles, target_tiles, query_bounds, tile_bounds, query_scales, target_scales, candidates,             \
                       query_count, target_count, tiles, period, blocks, kappa, tiny, stages);                                    \
    }
ENTRIES(bf16, BF16)
ENTRIES(f16, F16)
ENTRIES(int8, INT8)
