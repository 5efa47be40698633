// The lists of cosine_top_k.cu for at most 12 queries, bit for bit, on compute capability 8.0 and newer, for aligned rows whose
// length is a multiple of 128. As in cosine_top_k_few.cu each target is read once, also for its norm. What makes the reads faster:
//
//   256 bytes a read      rows are read 128 bytes at a time, and L2 fetches the next 128 bytes of the row with them. Reads of 128
//                         bytes alone are slower, probably because the memory opens a page for each
//   asynchronous copies   go to shared memory without registers, 16 KB for each block while it computes
//   tiles for free blocks each block takes the next tile when it is free: not all multiprocessors are equally fast
//
// The two warps of a block score the same 128 targets, each against half of the queries, a thread four targets: each query's
// element that it loads from shared memory is used four times, each target's up to six times.

#include "cosine_top_k.cuh"

#undef THREADS
#define THREADS 64
#define MOST 12                          // queries
#define LINE 128                         // bytes of a target in a stage
#define CHUNK 16                         // bytes of a copy
#define PARTS (LINE / CHUNK)             // threads that copy one target
#define STEP (THREADS / PARTS)           // targets that the block copies at once
#define LOADS (TILE / STEP)              // targets of which a thread copies a chunk
#define OWN_ROWS (TILE / 32)             // targets that a thread scores
#define PER_STAGE(type) (LINE / sizeof(type))  // elements of a target in a stage

static __device__ __forceinline__ void unpack(uint4 bits, float *out, const float *) {
    out[0] = __uint_as_float(bits.x), out[1] = __uint_as_float(bits.y);
    out[2] = __uint_as_float(bits.z), out[3] = __uint_as_float(bits.w);
}

// For both types of 16 bits.
template <typename T> static __device__ __forceinline__ void unpack(uint4 bits, float *out, const T *) {
    unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (unsigned i = 0; i < 4; i++) out[2 * i] = to_float((T)words[i]), out[2 * i + 1] = to_float((T)(words[i] >> 16));
}

// `square_sum` has 32 sums, for elements (i / 4) % 32. This thread has those of its chunks, in TURNS stages.
template <typename T, unsigned TURN, unsigned TURNS, unsigned SUMS>
static __device__ __forceinline__ void add_squares(const char *chunks, float (&squares)[LOADS][TURNS][SUMS]) {
    // The text differs for each turn. Otherwise the compiler makes one branch of all, with the sums in local memory.
    asm volatile("// turn %0" ::"n"(TURN));
#pragma unroll
    for (unsigned l = 0; l < LOADS; l++) {
        float t[4 * SUMS];
        unpack(*(const uint4 *)(chunks + l * STEP * LINE), t, (const T *)0);
#pragma unroll
        for (unsigned i = 0; i < 4 * SUMS; i++) squares[l][TURN][i / 4] = fmaf(t[i], t[i], squares[l][TURN][i / 4]);
    }
}

// The rest of `square_sum`, in the first of the threads that copy a target.
template <unsigned TURNS, unsigned SUMS>
static __device__ __forceinline__ float all_squares(const float (&squares)[TURNS][SUMS]) {
    float sums[SUMS];
#pragma unroll
    for (unsigned i = 0; i < SUMS; i++) {
        sums[i] = squares[0][i] + squares[TURNS / 2][i];
        if (TURNS == 4) sums[i] += squares[1][i] + squares[TURNS - 1][i];
        for (unsigned offset = PARTS / 2; offset > 0; offset /= 2) sums[i] += __shfl_down_sync(ALL, sums[i], offset);
    }
    return SUMS == 2 ? sums[0] + sums[SUMS - 1] : sums[0];
}

// The products of COUNT queries with a thread's targets. `lines` and `asks` begin at the thread's first target and at the warp's
// first query in a stage.
template <typename T, unsigned COUNT>
static __device__ __forceinline__ void add_products(const char *lines, const float *asks, float (&sums)[MOST / 2][OWN_ROWS]) {
    constexpr unsigned EACH = CHUNK / sizeof(T);
#pragma unroll 2
    for (unsigned part = 0; part < PARTS; part++) {
        float t[OWN_ROWS][EACH];
#pragma unroll
        for (unsigned r = 0; r < OWN_ROWS; r++)
            unpack(*(const uint4 *)(lines + r * 32 * LINE + (part ^ threadIdx.x % PARTS) * CHUNK), t[r], (const T *)0);
#pragma unroll
        for (unsigned i = 0; i < EACH; i += 4)
#pragma unroll
            for (unsigned query = 0; query < COUNT; query++) {
                float4 q = *(const float4 *)&asks[query * PER_STAGE(T) + part * EACH + i];
#pragma unroll
                for (unsigned r = 0; r < OWN_ROWS; r++) {
                    float sum = sums[query][r];
                    sum = fmaf(q.x, t[r][i], sum), sum = fmaf(q.y, t[r][i + 1], sum);
                    sum = fmaf(q.z, t[r][i + 2], sum), sum = fmaf(q.w, t[r][i + 3], sum);
                    sums[query][r] = sum;
                }
            }
    }
}

// Takes the scores of a tile into the lists of the warp's queries. Lane i has the norm and the last score of query i.
static __device__ __forceinline__ float take_tile(const float (&sums)[MOST / 2][OWN_ROWS], const float (&inverse)[OWN_ROWS], float norm,
                                                  float worst, unsigned first, float *scores, unsigned *indices, u64 lists, unsigned k) {
    // First find the queries that have a score for their list: there are few of them.
    unsigned better = 0;
#pragma unroll
    for (unsigned i = 0; i < MOST / 2; i++) {
        float query_norm = __shfl_sync(ALL, norm, i), last = __shfl_sync(ALL, worst, i);
        bool any = false;
#pragma unroll
        for (unsigned r = 0; r < OWN_ROWS; r++) any |= sums[i][r] * query_norm * inverse[r] > last;
        if (__any_sync(ALL, any)) better |= 1u << i;
    }
#pragma unroll 1
    for (; better; better &= better - 1) {
        unsigned i = __ffs(better) - 1;
        float query_norm = __shfl_sync(ALL, norm, i), last = __shfl_sync(ALL, worst, i), row[OWN_ROWS];
#pragma unroll
        for (unsigned r = 0; r < OWN_ROWS; r++) {
            row[r] = sums[0][r];
#pragma unroll
            for (unsigned j = 1; j < MOST / 2; j++) row[r] = i == j ? sums[j][r] : row[r];
            row[r] = row[r] * query_norm * inverse[r];
        }
        List list(scores + i * lists, indices + i * lists, k);
#pragma unroll 1
        for (unsigned r = 0; r < OWN_ROWS; r++) {
            last = list.take(row[0], first + r * 32, last);
            // They take turns, because registers have no addresses.
#pragma unroll
            for (unsigned s = 0; s + 1 < OWN_ROWS; s++) row[s] = row[s + 1];
        }
        list.end();
        if (threadIdx.x % 32 == i) worst = last;
    }
    return worst;
}

// `next`: the first tile that no block has taken. `cosine`: computes the norms of the targets; otherwise they are 1.
//
// Not static: otherwise the names of its shared arrays would depend on the path of this file.
template <typename T>
__device__ __forceinline__ void few(const float *queries, const T *targets, const float *query_norms, unsigned *next, float *scores,
                                    unsigned *indices, u64 query_count, u64 target_count, u64 dim, unsigned k, unsigned cosine) {
    constexpr unsigned PART = PER_STAGE(T), TURNS = 128 / PART, SUMS = CHUNK / sizeof(T) / 4, ASKS = PART / 4;
    extern __shared__ __align__(128) char memory[];  // two stages of targets and queries: one is copied while the other is read
    __shared__ float norms[TILE];  // first the sums of squares
    __shared__ unsigned upcoming;
    unsigned lane = threadIdx.x % 32, part = threadIdx.x % PARTS, row = threadIdx.x / PARTS;
    unsigned stages = (unsigned)(dim / PART), tiles = (unsigned)((target_count + TILE - 1) / TILE);
    unsigned half = ((unsigned)query_count + 1) / 2, first_query = threadIdx.x / 32 * half;
    unsigned own = min(half, (unsigned)query_count - first_query), stage_bytes = TILE * LINE + 2 * half * PART * 4;

    // The list of the warp's query i begins at i * lists.
    u64 lists = (u64)gridDim.y * k, list = first_query * lists + (u64)blockIdx.y * k;
    scores += list, indices += list;
    for (unsigned i = 0; i < own; i++)
        for (unsigned j = lane; j < k; j += 32) scores[i * lists + j] = __int_as_float(0xff800000), indices[i * lists + j] = NONE;
    // Nothing is better than infinity: the last score of queries that do not exist.
    float norm = lane < own ? query_norms[first_query + lane] : 0.0f, worst = __int_as_float(lane < own ? 0xff800000 : 0x7f800000);
    if (threadIdx.x == 0) upcoming = atomicAdd(next, 1);
    __syncthreads();

    // The copies are one stage ahead, also from the last stage of a tile to the first of the next. Places of chunks in a line are
    // exchanged, so that loads of the same chunk of 8 targets have no bank conflicts.
    unsigned coming = upcoming, coming_stage = 0, ticket = 0;
    unsigned begin = (unsigned)__cvta_generic_to_shared(memory), place = row * LINE + (part ^ row % PARTS) * CHUNK;
    u64 line = dim * sizeof(T);
    const char *first_line = (const char *)targets + row * line + part * CHUNK, *from = first_line + (u64)coming * TILE * line;
    const float *first_ask = queries + threadIdx.x / ASKS * dim + threadIdx.x % ASKS * 4, *asked = first_ask;
    auto copy = [&](unsigned turn) {
        if (coming_stage == stages) {
            coming = upcoming, coming_stage = 0;
            from = first_line + (u64)coming * TILE * line, asked = first_ask;
        }
        if (coming >= tiles) return;
        // The answer has a stage of time.
        if (threadIdx.x == 0 && coming_stage == 0) ticket = atomicAdd(next, 1);
        if (threadIdx.x == 0 && coming_stage == 1) upcoming = ticket;
        unsigned to = begin + turn * stage_bytes, left = (unsigned)min((u64)TILE, target_count - (u64)coming * TILE);
        const char *at = from;
#pragma unroll
        for (unsigned l = 0; l < LOADS; l++, at += STEP * line)  // zeros for rows beyond the end
            asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to + place + l * STEP * LINE), "l"(at),
                         "r"(row + l * STEP < left ? 16 : 0)
                         : "memory");
#pragma unroll
        for (unsigned l = 0; l < MOST * ASKS / THREADS + 1; l++)
            if (threadIdx.x + l * THREADS < (unsigned)query_count * ASKS)
                asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to + TILE * LINE + (threadIdx.x + l * THREADS) * 16),
                             "l"(asked + l * (THREADS / ASKS) * dim)
                             : "memory");
        from += LINE, asked += PART, coming_stage++;
    };
    unsigned turn = 0;
    copy(turn);

    for (unsigned tile = coming; tile < tiles; tile = coming) {
        float sums[MOST / 2][OWN_ROWS] = {}, squares[LOADS][TURNS][SUMS] = {};
#pragma unroll 1
        for (unsigned stage = 0; stage < stages; stage++, turn ^= 1) {
            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncthreads();
            copy(turn ^ 1);
            const char *in = memory + turn * stage_bytes, *chunks = in + place;
            if (cosine) {
                unsigned of = stage % TURNS;
                if (of == 0) add_squares<T, 0>(chunks, squares);
                else if (of == 1) add_squares<T, 1>(chunks, squares);
                else if (of == 2) add_squares<T, 2 % TURNS>(chunks, squares);
                else add_squares<T, 3 % TURNS>(chunks, squares);
            }
            const float *asks = (const float *)(in + TILE * LINE) + first_query * PART;
            in += lane * LINE;
            switch (own) {
            case 1: add_products<T, 1>(in, asks, sums); break;
            case 2: add_products<T, 2>(in, asks, sums); break;
            case 3: add_products<T, 3>(in, asks, sums); break;
            case 4: add_products<T, 4>(in, asks, sums); break;
            case 5: add_products<T, 5>(in, asks, sums); break;
            case 6: add_products<T, 6>(in, asks, sums); break;
            }
        }
#pragma unroll
        for (unsigned l = 0; l < LOADS; l++) {
            float sum = all_squares(squares[l]);
            if (part == 0) norms[row + l * STEP] = sum;
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; cosine && i < TILE; i += THREADS) {
            float sum = norms[i];
            unsigned first = i - lane, extreme = __ballot_sync(ALL, is_extreme(sum) && (u64)tile * TILE + i < target_count);
            norms[i] = inverse_norm(sum);
            for (; extreme; extreme &= extreme - 1) {
                const T *of = targets + ((u64)tile * TILE + first + __ffs(extreme) - 1) * dim;
                float norm = row_norm(of, dim, square_sum(of, dim));
                if (lane == __ffs(extreme) - 1) norms[i] = norm;
            }
        }
        __syncthreads();
        float inverse[OWN_ROWS];
#pragma unroll
        for (unsigned r = 0; r < OWN_ROWS; r++) {
            u64 at = (u64)tile * TILE + r * 32 + lane;
            inverse[r] = cosine ? norms[r * 32 + lane] : 1.0f;
            // Beyond the end NaN, so that no score is better than another.
            if (at >= target_count) inverse[r] = __int_as_float(0x7fffffff);
            float power = row_power(inverse[r]);
            if (power == 1.0f) continue;
            inverse[r] = fabsf(inverse[r]);
#pragma unroll
            for (unsigned i = 0; i < MOST / 2; i++)
                if (i < own) sums[i][r] = extreme_product(queries + (first_query + i) * dim, targets + at * dim, power, dim);
        }
        worst = take_tile(sums, inverse, norm, worst, tile * TILE, scores, indices, lists, k);
    }
}

#define FEW(type, name)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) cosine_top_k_few_80_##name(                                           \
        const float *queries, const type *targets, const float *query_norms, unsigned *next, float *scores, unsigned *indices,     \
        u64 query_count, u64 target_count, u64 dim, unsigned k, unsigned cosine) {                                                 \
        few(queries, targets, query_norms, next, scores, indices, query_count, target_count, dim, k, cosine);                      \
    }
FEW(float, f32)
FEW(half_bits, f16)
FEW(bfloat_bits, bf16)

// One block of one warp for each query: the norms of the queries, and no tile is taken.
extern "C" __global__ void cosine_top_k_few_80_begin(const float *queries, float *norms, unsigned *next, u64 dim, unsigned cosine) {
    float sum = square_sum(queries + blockIdx.x * dim, dim);
    if (threadIdx.x == 0) norms[blockIdx.x] = cosine ? inverse_norm(sum) : 1.0f;
    if (threadIdx.x == 0 && blockIdx.x == 0) *next = 0;
}
