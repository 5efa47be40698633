// The lists of cosine_top_k.cu for at most 12 queries, bit for bit. The memory limits the speed, so each target is read once, also
// for its norm. A warp scores all targets of a tile against its queries, and a thread four of these targets: each element that it
// loads from shared memory is used several times, because a multiprocessor returns only 128 bytes of shared memory a cycle.

#include "cosine_top_k.cuh"

#undef THREADS
#define THREADS 128
#define WARPS (THREADS / 32)
#define PART 32             // elements of a target in shared memory at a time
#define LINE (PART + 4)     // its loads of 16 bytes have no bank conflicts
#define SHARE (PART / 4)    // threads that load one target
#define OWN_ROWS (THREADS / 32)  // targets of a tile that a thread scores
#define LOADS SHARE         // targets that a thread loads

// `own_norms`: computes the norms of the targets, in the order of `square_sum`. Rows are then aligned, and `dim` is a multiple of 128.
//
// Not static: otherwise the names of its shared arrays would depend on the path of this file.
template <typename T, unsigned MOST>
__device__ __forceinline__ void few(const float *queries, const T *targets, const float *query_norms, float *target_norms, float *scores,
                                    unsigned *indices, u64 query_count, u64 target_count, u64 dim, u64 chunk, unsigned k, unsigned own_norms) {
    // Two stages: one is written while slower warps still read the other.
    __shared__ __align__(16) float all_rows[2][THREADS * LINE], all_own[2][MOST * PART], products[MOST * SCORES * 2];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned part = threadIdx.x % SHARE * 4, row = threadIdx.x / SHARE;
    u64 first_target = (u64)blockIdx.y * chunk;
    u64 end_target = first_target + chunk < target_count ? first_target + chunk : target_count;
    unsigned stages = (unsigned)((dim + PART - 1) / PART);
    unsigned whole = aligned(queries, dim) && aligned(targets, dim) ? (unsigned)(dim / PART) : 0;

    // The lists of query i of a warp begin at list + i * WARPS * lists.
    u64 lists = (u64)gridDim.y * k, list = warp * lists + (u64)blockIdx.y * k;
    float worst[MOST / WARPS];
#pragma unroll
    for (unsigned i = 0; i < MOST / WARPS; i++) {
        worst[i] = __int_as_float(0xff800000);
        if (warp + i * WARPS >= query_count) continue;
        for (unsigned j = lane; j < k; j += 32) scores[list + i * WARPS * lists + j] = worst[i], indices[list + i * WARPS * lists + j] = NONE;
    }
    __syncwarp();

    for (u64 tile = first_target; tile < end_target; tile += THREADS) {
        // Rows beyond the end: the last row again; its scores are not used.
        unsigned last = target_count - tile < THREADS ? (unsigned)(target_count - tile) - 1 : THREADS - 1;
        const T *from = targets + tile * dim + part;
        const float *asked = queries + (row < query_count ? row : 0) * dim + part;
        float sums[MOST / WARPS][OWN_ROWS] = {}, squares[LOADS][4] = {}, staged[LOADS][4], ask[4];
        auto load = [&](unsigned stage) {
#pragma unroll
            for (unsigned l = 0; l < LOADS; l++) {
                unsigned at = row + l * (THREADS / SHARE);
                const T *target = from + (at < last ? at : last) * dim;
                if (stage < whole) {
                    load_four(target, staged[l]);
                } else {
#pragma unroll
                    for (unsigned i = 0; i < 4; i++) staged[l][i] = (u64)stage * PART + part + i < dim ? to_float(target[i]) : 0.0f;
                }
            }
            if (threadIdx.x < MOST * SHARE) {
                if (stage < whole) {
                    load_four(asked, ask);
                } else {
#pragma unroll
                    for (unsigned i = 0; i < 4; i++) ask[i] = (u64)stage * PART + part + i < dim ? asked[i] : 0.0f;
                }
            }
            from += PART, asked += PART;
        };
        load(0);
#pragma unroll 1
        for (unsigned stage = 0; stage < stages; stage++) {
            float *rows = all_rows[stage % 2], *own = all_own[stage % 2];
#pragma unroll
            for (unsigned l = 0; l < LOADS; l++)
                *(float4 *)&rows[(row + l * (THREADS / SHARE)) * LINE + part] =
                    make_float4(staged[l][0], staged[l][1], staged[l][2], staged[l][3]);
            if (threadIdx.x < MOST * SHARE) *(float4 *)&own[row * PART + part] = make_float4(ask[0], ask[1], ask[2], ask[3]);
            // `square_sum` has 32 sums, for elements (i / 4) % 32; this thread has four of them for each of its rows.
            // They take turns, because registers have no addresses.
            if (own_norms) {
#pragma unroll
                for (unsigned l = 0; l < LOADS; l++) {
                    float sum = squares[l][0];
#pragma unroll
                    for (unsigned i = 0; i < 4; i++) sum = fmaf(staged[l][i], staged[l][i], sum);
                    squares[l][0] = squares[l][1], squares[l][1] = squares[l][2], squares[l][2] = squares[l][3], squares[l][3] = sum;
                }
            }
            __syncthreads();
            if (stage + 1 < stages) load(stage + 1);
            // A warp without queries only loads.
            if (warp >= query_count) continue;
            const float *line = rows + lane * LINE, *asks = own + warp * PART;
            if ((u64)(stage + 1) * PART <= dim) {
#pragma unroll 2
                for (unsigned i = 0; i < PART; i += 4) {
                    float4 t[OWN_ROWS];
#pragma unroll
                    for (unsigned r = 0; r < OWN_ROWS; r++) t[r] = *(const float4 *)&line[r * 32 * LINE + i];
#pragma unroll
                    for (unsigned query = 0; query < MOST / WARPS; query++) {
                        float4 q = *(const float4 *)&asks[query * WARPS * PART + i];
#pragma unroll
                        for (unsigned r = 0; r < OWN_ROWS; r++) {
                            float sum = sums[query][r];
                            sum = fmaf(q.x, t[r].x, sum), sum = fmaf(q.y, t[r].y, sum);
                            sum = fmaf(q.z, t[r].z, sum), sum = fmaf(q.w, t[r].w, sum);
                            sums[query][r] = sum;
                        }
                    }
                }
            } else {
#pragma unroll 1
                for (unsigned i = 0; i < dim - (u64)stage * PART; i++)
#pragma unroll
                    for (unsigned query = 0; query < MOST / WARPS; query++)
#pragma unroll
                        for (unsigned r = 0; r < OWN_ROWS; r++)
                            sums[query][r] = fmaf(asks[query * WARPS * PART + i], line[r * 32 * LINE + i], sums[query][r]);
            }
        }
#pragma unroll
        for (unsigned query = 0; query < MOST / WARPS; query++)
#pragma unroll
            for (unsigned r = 0; r < OWN_ROWS; r++) {
                float sum = sums[query][r];
                // The other kernel pads rows with 0, which changes -0 to 0.
                products[(warp + query * WARPS) * SCORES * 2 + r * 32 + lane] = dim % 16 != 0 ? fmaf(0.0f, 0.0f, sum) : sum;
            }
        if (own_norms) {
#pragma unroll
            for (unsigned l = 0; l < LOADS; l++) {
                float sum = (squares[l][0] + squares[l][2]) + (squares[l][1] + squares[l][3]);
                for (unsigned offset = SHARE / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(ALL, sum, offset);
                u64 at = tile + row + l * (THREADS / SHARE);
                if (part == 0 && at < target_count) target_norms[at] = is_extreme(sum) ? -1.0f : inverse_norm(sum);
            }
            __syncthreads();
            u64 at = tile + warp * 32 + lane;
            unsigned extreme = __ballot_sync(ALL, at < target_count && target_norms[at] < 0.0f);
            for (; extreme; extreme &= extreme - 1) {
                const T *of = targets + (tile + warp * 32 + __ffs(extreme) - 1) * dim;
                float norm = row_norm(of, dim, square_sum(of, dim));
                if (lane == __ffs(extreme) - 1) target_norms[at] = norm;
            }
        }
        __syncthreads();
        for (unsigned r = 0; r < OWN_ROWS; r++) {
            u64 at = tile + r * 32 + lane;
            float power = row_power(at < end_target ? target_norms[at] : 1.0f);
            if (power == 1.0f) continue;
            for (unsigned query = warp; query < query_count; query += WARPS)
                products[query * SCORES * 2 + r * 32 + lane] = extreme_product(queries + query * dim, targets + at * dim, power, dim);
        }
        __syncwarp();
#pragma unroll
        for (unsigned i = 0; i < MOST / WARPS; i++) {
            unsigned query = warp + i * WARPS;
            if (query >= query_count) continue;
            float norm = query_norms[query];
#pragma unroll 1
            for (unsigned half = 0; half < 2; half++) {
                u64 first = tile + half * HALF;
                const float *row_scores = products + query * SCORES * 2 + half * HALF + lane;
                bool low = row_scores[0] * norm * norm_or_nan(target_norms, first + lane, end_target) > worst[i];
                bool high = row_scores[32] * norm * norm_or_nan(target_norms, first + 32 + lane, end_target) > worst[i];
                if (!__any_sync(ALL, low | high)) continue;
                u64 at = list + i * WARPS * lists;
                worst[i] = take(row_scores, norm, worst[i], target_norms, first, end_target, scores + at, indices + at, k);
            }
        }
    }
}

#define FEW(type, name, most)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) cosine_top_k_few_##most##_##name(                                     \
        const float *queries, const type *targets, const float *query_norms, float *target_norms, float *scores,                   \
        unsigned *indices, u64 query_count, u64 target_count, u64 dim, u64 chunk, unsigned k, unsigned own_norms) {                \
        few<type, most>(queries, targets, query_norms, target_norms, scores, indices, query_count, target_count, dim, chunk, k,    \
                        own_norms);                                                                                                \
    }
FEW(float, f32, 4)
FEW(half_bits, f16, 4)
FEW(bfloat_bits, bf16, 4)
FEW(float, f32, 12)
FEW(half_bits, f16, 12)
FEW(bfloat_bits, bf16, 12)
