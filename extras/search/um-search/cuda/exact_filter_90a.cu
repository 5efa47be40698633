// The filter of the exact search for compute capability 9.0 (wgmma): the same result as exact_filter.cu, with the same layout
// of tiles. One thread keeps four stages filled by bulk copies. Two warpgroups process 64 queries x 256 targets each,
// independently of each other.

#include "exact.cuh"

#define CONSUMERS 8            // warps
#define THREADS (CONSUMERS * 32 + 128)
#define STAGES 4
#define HITS 64
#define DESCRIPTOR (1ull << 62 | 64ull << 32 | 1ull << 16)  // 128-byte swizzle, 1024 bytes between groups of eight rows

static __device__ __forceinline__ unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

static __device__ __forceinline__ void wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}" ::"r"(barrier), "r"(parity)
        : "memory");
}

static __device__ __forceinline__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

static __device__ __forceinline__ void copy(unsigned to, const char *from, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(TILE_BYTES), "r"(barrier)
                 : "memory");
}

#define D8(i, kind) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3]), kind(d[i + 4]), kind(d[i + 5]), kind(d[i + 6]), kind(d[i + 7])
#define D64(i, kind) D8(i, kind), D8(i + 8, kind), D8(i + 16, kind), D8(i + 24, kind), D8(i + 32, kind), D8(i + 40, kind), D8(i + 48, kind), D8(i + 56, kind)
#define FLOAT(x) "+f"(x)
#define INT(x) "+r"(x)
// d (+)= a * b, 64 x 256 x 32 bytes.
#define WGMMA(instruction, kind, rest)                                                                                                              \
    asm volatile(                                                                                                                 \
        "{ .reg .pred more; setp.ne.b32 more, %130, 0;"                                                                           \
        "wgmma.mma_async.sync.aligned.m64n256" instruction " {"                                                         \
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127" \
        "}, %128, %129, more" rest "; }"                                                                                      \
        : D64(0, kind), D64(64, kind)                                                                                                         \
        : "l"(a), "l"(b), "r"((int)more))

template <int FORMAT> static __device__ __forceinline__ void multiply(float (&d)[128], u64 a, u64 b, bool more) {
    if (FORMAT == F16)
        WGMMA("k16.f32.f16.f16", FLOAT, ", 1, 1, 0, 0");
    else
        WGMMA("k16.f32.bf16.bf16", FLOAT, ", 1, 1, 0, 0");
}

template <int FORMAT> static __device__ __forceinline__ void multiply(int (&d)[128], u64 a, u64 b, bool more) {
    WGMMA("k32.s32.s8.s8", INT, "");
}

static __device__ __forceinline__ void hold(float &sum) { asm volatile("" : FLOAT(sum)::"memory"); }
static __device__ __forceinline__ void hold(int &sum) { asm volatile("" : INT(sum)::"memory"); }

// The consumers call `finish(query_tile, target_tile, sums)` for this block's pairs of tiles, and `begin` before each pair.
template <int FORMAT, typename Begin, typename Finish>
static __device__ __forceinline__ void products(const char *query_tiles, const char *target_tiles, unsigned query_count,
                                                unsigned tiles, int period, unsigned blocks, char *memory,
                                                u64 *barriers, Begin begin, Finish finish) {
    unsigned base = shared_address(memory), groups = (query_count + BLOCK_Q - 1) / BLOCK_Q, pairs = groups * tiles;
    unsigned full = shared_address(barriers), empty = full + STAGES * 8;
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < STAGES; stage++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + stage * 8) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + stage * 8), "r"(CONSUMERS) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    unsigned stage = 0, parity = 0;
    if (threadIdx.x >= CONSUMERS * 32) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == CONSUMERS * 32) {
            for (unsigned pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
                u64 target = (u64)tile_at(pair / groups, period) * 2, row = (u64)blocks * TILE_BYTES;
                const char *from_q = query_tiles + pair % groups * row, *from_t = target_tiles + target * row;
                for (unsigned block = 0; block < blocks; block++) {
                    wait(empty + stage * 8, parity ^ 1);
                    unsigned to = base + stage * STAGE_BYTES, barrier = full + stage * 8;
                    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(STAGE_BYTES) : "memory");
                    copy(to, from_q + block * TILE_BYTES, barrier);
                    copy(to + TILE_BYTES, from_t + block * TILE_BYTES, barrier);
                    copy(to + 2 * TILE_BYTES, from_t + row + block * TILE_BYTES, barrier);
                    if (++stage == STAGES) stage = 0, parity ^= 1;
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        unsigned half = threadIdx.x / 128;
        u64 query = DESCRIPTOR | (base + half * TILE_BYTES / 2) >> 4, target = DESCRIPTOR | (base + TILE_BYTES) >> 4;
        auto release = [&](unsigned stage) {
            if (threadIdx.x % 32 == 0) arrive(empty + stage * 8);
        };
        typename Tensor<FORMAT>::Sum sums[128];
        for (unsigned pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
            unsigned query_tile = pair % groups, target_tile = tile_at(pair / groups, period);
            begin(query_tile, target_tile);
#pragma unroll 1
            for (unsigned block = 0; block < blocks; block++) {
                wait(full + stage * 8, parity);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                u64 at = stage * (STAGE_BYTES >> 4);
#pragma unroll
                for (unsigned step = 0; step < STEPS; step++)
                    multiply<FORMAT>(sums, query + at + step * 2, target + at + step * 2, block + step > 0);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                // The previous stage is free now.
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (block > 0) release(stage == 0 ? STAGES - 1 : stage - 1);
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
            for (unsigned i = 0; i < 128; i++) hold(sums[i]);
            release(stage == 0 ? STAGES - 1 : stage - 1);
            finish(query_tile, target_tile, sums);
        }
    }
}

// A thread has 64 scores of each of two queries: four groups.
#define QUERY(i) (threadIdx.x / 32 * 16 + lane / 4 + (i) * 8)
#define TARGET(j) GROUP_TARGET((j) / GROUP * 4 + lane % 4, (j) % GROUP)
#define SCORE(i, j) scaled(sums[(j) / 2 * 4 + (i) * 2 + (j) % 2], (j) % 2 ? scales[(j) / 2 % 8].y : scales[(j) / 2 % 8].x)
#define SUMS typename Tensor<FORMAT>::Sum(&sums)[128]

// The scales of 16 targets, two by two.
template <int FORMAT> __device__ __forceinline__ void load_scales(float2 (&to)[8], const float *scales, unsigned group) {
    if (FORMAT == INT8)
#pragma unroll
        for (unsigned i = 0; i < 8; i++) to[i] = *(const float2 *)&scales[threadIdx.x % 4 * 2 + (group / 2 + i) * 8];
}

// Not static: otherwise the names of their shared arrays would depend on the path of this file.
template <int FORMAT>
__device__ __forceinline__ void sample(const char *query_tiles, const char *target_tiles, const float2 *query_bounds,
                                       const float2 *target_bounds, const float2 *tile_bounds, const float *query_scales,
                                       const float *target_scales, float *best, unsigned query_count, unsigned sampled, int period,
                                       unsigned blocks, float kappa, float tiny) {
    extern __shared__ __align__(1024) char memory[];
    __shared__ u64 barriers[2 * STAGES];
    unsigned lane = threadIdx.x % 32;
    auto begin = [](unsigned, unsigned) {};
    auto finish = [&](unsigned query_tile, unsigned target_tile, SUMS) {
        const float2 *bounds = target_bounds + (u64)target_tile * BLOCK_T;
        float2 tile_bound = tile_bounds[target_tile];
#pragma unroll
        for (unsigned group = 0; group < 64 / GROUP; group++) {
            float2 scales[8];
            load_scales<FORMAT>(scales, target_scales + (u64)target_tile * BLOCK_T, group * GROUP);
            unsigned special = 0;
#pragma unroll
            for (unsigned j = 0; j < GROUP; j++) special |= (bounds[TARGET(group * GROUP + j)].y == INFINITE ? 1u : 0u) << j;
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                unsigned query = query_tile * BLOCK_Q + QUERY(i);
                if (query >= query_count) continue;
                float scores[GROUP];
#pragma unroll
                for (unsigned j = 0; j < GROUP; j++) scores[j] = SCORE(i, group * GROUP + j);
                float error = error_bound(query_bounds[query], tile_bound, kappa, tiny), scale = FORMAT == INT8 ? query_scales[query] : 1.0f;
                best[((u64)query * sampled + target_tile / period) * GROUPS + group * 4 + lane % 4] =
                    best_of<FORMAT>(scores, special, scale, error);
            }
        }
    };
    products<FORMAT>(query_tiles, target_tiles, query_count, sampled, period, blocks, memory, barriers, begin, finish);
}

template <int FORMAT>
__device__ __forceinline__ void filter(const char *query_tiles, const char *target_tiles, const float2 *query_bounds,
                                       const float2 *tile_bounds, const float *query_scales, const float *target_scales,
                                       Candidates candidates, unsigned query_count, unsigned target_count, unsigned tiles, int period,
                                       unsigned blocks, float kappa, float tiny) {
    extern __shared__ __align__(1024) char memory[];
    __shared__ u64 barriers[2 * STAGES];
    __shared__ uint3 kept[CONSUMERS][HITS];
    __shared__ unsigned counts[CONSUMERS];
    __shared__ float2 shared_scales[FORMAT == INT8 ? 4 : 1][FORMAT == INT8 ? BLOCK_T / 2 : 1];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Hits<HITS> hits = {kept[warp], &counts[warp]};
    if (warp < CONSUMERS && lane == 0) counts[warp] = 0;
    Threshold<FORMAT> thresholds[2];
    float2 tile_bound, own_scales;
    unsigned group_of_warps = threadIdx.x / 128, turn = 0;
    auto begin = [&](unsigned query_tile, unsigned target_tile) {
        if (FORMAT == INT8) own_scales = *(const float2 *)&target_scales[(u64)target_tile * BLOCK_T + threadIdx.x % 128 * 2];
        tile_bound = tile_bounds[target_tile];
#pragma unroll
        for (unsigned i = 0; i < 2; i++) thresholds[i].load(candidates, query_bounds, query_scales, query_tile * BLOCK_Q + QUERY(i), query_count);
    };
    auto finish = [&](unsigned query_tile, unsigned target_tile, SUMS) {
        float2(&tile_scales)[FORMAT == INT8 ? BLOCK_T / 2 : 1] = shared_scales[FORMAT == INT8 ? group_of_warps * 2 + turn : 0];
        if (FORMAT == INT8) {
            // The warpgroup's other half still has the scales of the last pair, which slower warps may still read.
            tile_scales[threadIdx.x % 128] = own_scales, turn ^= 1;
            if (group_of_warps == 0)
                asm volatile("bar.sync 1, 128;" ::: "memory");
            else
                asm volatile("bar.sync 2, 128;" ::: "memory");
        }
        float least[2] = {thresholds[0].from(tile_bound, kappa, tiny), thresholds[1].from(tile_bound, kappa, tiny)};
#pragma unroll
        for (unsigned group = 0; group < 64; group += GROUP) {
            float2 scales[8];
            load_scales<FORMAT>(scales, (const float *)tile_scales, group);
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                float scores[GROUP];
#pragma unroll
                for (unsigned j = 0; j < GROUP; j++) scores[j] = SCORE(i, group + j);
                hits.template take<FORMAT>(candidates, query_tile * BLOCK_Q + QUERY(i), query_scales, least[i], scores, target_count,
                                           [&](unsigned j) { return target_tile * BLOCK_T + TARGET(group + j); });
            }
        }
        hits.flush(candidates, HITS / 2);
    };
    products<FORMAT>(query_tiles, target_tiles, query_count, tiles, period, blocks, memory, barriers, begin, finish);
    if (warp < CONSUMERS) hits.flush(candidates, 1);
}

#define ENTRIES(name, FORMAT)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) exact_sample_##name(                                                 \
        const char *query_tiles, const char *target_tiles, const float2 *query_bounds, const float2 *target_bounds,               \
        const float2 *tile_bounds, const float *query_scales, const float *target_scales, float *best, unsigned query_count,      \
        unsigned sampled, int period, unsigned blocks, float kappa, float tiny, unsigned) {                                \
        sample<FORMAT>(query_tiles, target_tiles, query_bounds, target_bounds, tile_bounds, query_scales, target_scales, best,    \
                       query_count, sampled, period, blocks, kappa, tiny);                                                \
    }                                                                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) exact_filter_##name(                                                 \
        const char *query_tiles, const char *target_tiles, const float2 *query_bounds, const float2 *tile_bounds,                 \
        const float *query_scales, const float *target_scales, float *thresholds, unsigned *counts, uint2 *kept,                  \
        unsigned capacity, unsigned query_count, unsigned target_count, unsigned tiles, int period, unsigned blocks, float kappa, \
        float tiny, unsigned) {                                                                                            \
        Candidates candidates = {thresholds, counts, kept, capacity};                                                             \
        filter<FORMAT>(query_tiles, target_tiles, query_bounds, tile_bounds, query_scales, target_scales, candidates,             \
                       query_count, target_count, tiles, period, blocks, kappa, tiny);                                    \
    }
ENTRIES(bf16, BF16)
ENTRIES(f16, F16)
ENTRIES(int8, INT8)
