// The parts of the exact search around its filter: rows are prepared, thresholds are computed from the sample, and the
// remaining candidates are scored bit for bit as in cosine_top_k.cu. docs/exact-search.md has the proof that no result is lost.
//
//   exact_prepare      inverse norm, tiles and bounds of rows, one warp for each row
//   exact_tile_bounds  the largest bounds of each block of targets, and the list of special rows
//   exact_thresholds   the k-th best of the sample, one block for each query
//   exact_rescore      candidates above the k-th best lower bound, their exact scores, and the best k; one block a query
//   exact_merge        the lists of a piece of the targets merged into the lists of the pieces before it
//   exact_gather       the rows of fallback queries, for cosine_top_k_partial_some

#include "exact.cuh"

#define THREADS 256
#define ROWS 64       // candidates scored at a time
#define PART 128      // elements of each in shared memory at a time
#define LINE (PART + 4)
#define LEAST 0x1p-80f  // rows with squared norms outside of these limits are special
#define MOST 0x1p120f

// ---------------------------------------------------------------------------------------------------------------------- prepare

// A value in 16 bits. Denormal values become 0, and the measured error includes this: nothing depends on how tensor cores
// handle them.
template <bool HALF> static __device__ __forceinline__ half_bits narrow(float value) {
    half_bits bits;
    if (HALF)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    else
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return (bits & (HALF ? 0x7c00 : 0x7f80)) ? bits : (half_bits)0;
}

template <bool HALF> static __device__ __forceinline__ float widen(half_bits bits) {
    return HALF ? to_float(bits) : __uint_as_float((unsigned)bits << 16);
}

// One scaled element in the format of the tiles; its squared error is added to `errors`.
template <bool HALF> static __device__ __forceinline__ half_bits convert(float value, float norm, float &errors) {
    half_bits bits = narrow<HALF>(value * norm);
    float error = fmaf(value, norm, -widen<HALF>(bits));
    errors = fmaf(error, error, errors);
    return bits;
}

// Stores four elements into a tile: 8 bytes.
static __device__ __forceinline__ void store_four(char *row_tiles, u64 row, u64 at, const half_bits *bits) {
    char *tile = row_tiles + at / TILE_K * TILE_BYTES + row % BLOCK_Q * 128;
    unsigned part = (unsigned)(at % TILE_K) / 8;
    uint2 four = make_uint2(bits[0] | (unsigned)bits[1] << 16, bits[2] | (unsigned)bits[3] << 16);
    *(uint2 *)(tile + (part ^ row % 8) * 16 + at % 8 * 2) = four;
}

// `norms`, tiles and `bounds` of rows `first` to `first + count`. `rows` has those before `end`; the others are beyond the end.
// `specials` is still empty.
template <typename T, bool HALF>
static __device__ __forceinline__ void prepare(const T *rows, float *norms, char *tiles, float2 *bounds, unsigned *specials, u64 first,
                                               u64 count, u64 end, u64 dim, float grow, unsigned cosine) {
    constexpr unsigned HELD = 8;  // a warp holds this number times 128 elements
    u64 at_row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (at_row == 0) *specials = 0;
    if (at_row >= count) return;
    unsigned lane = threadIdx.x % 32;
    u64 row = first + at_row, blocks = (dim + TILE_K - 1) / TILE_K, padded = blocks * TILE_K;
    char *row_tiles = tiles + row / BLOCK_Q * blocks * TILE_BYTES;
    const T *from = rows + at_row * dim;
    bool exists = row < end, held = exists && aligned(from, dim) && dim % 128 == 0 && dim <= HELD * 128;
    float kept[HELD][4], sum = 0.0f;
    if (held) {
        // The same sum as `square_sum`, in the same order.
#pragma unroll
        for (unsigned i = 0; i < HELD; i++)
            if (i * 128 < dim) load_four(from + i * 128 + lane * 4, kept[i]);
#pragma unroll
        for (unsigned i = 0; i < HELD; i++)
            if (i * 128 < dim)
#pragma unroll
                for (unsigned j = 0; j < 4; j++) sum = fmaf(kept[i][j], kept[i][j], sum);
        for (unsigned offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(ALL, sum, offset);
    } else if (exists) {
        sum = square_sum(from, dim);
    }
    sum = __shfl_sync(ALL, sum, 0);
    bool zero = sum == 0.0f;
    if (exists && zero) {
        bool some = false;
        for (u64 i = lane; i < dim; i += 32) some |= to_float(from[i]) != 0.0f;
        zero = !__any_sync(ALL, some);
    }
    float norm = cosine ? inverse_norm(sum) : 1.0f;
    bool special = !exists || !(zero || (sum <= MOST && (!cosine || sum >= LEAST)));
    float errors = 0.0f;
    half_bits bits[4] = {0, 0, 0, 0};
    if (special || zero) {
        for (u64 i = lane * 4; i < padded; i += 128) store_four(row_tiles, row, i, bits);
    } else if (held) {
#pragma unroll
        for (unsigned i = 0; i < HELD; i++)
            if (i * 128 < dim) {
#pragma unroll
                for (unsigned j = 0; j < 4; j++) bits[j] = convert<HALF>(kept[i][j], norm, errors);
                store_four(row_tiles, row, i * 128 + lane * 4, bits);
            }
    } else {
        for (u64 i = lane * 4; i < padded; i += 128) {
#pragma unroll
            for (unsigned j = 0; j < 4; j++) bits[j] = i + j < dim ? convert<HALF>(to_float(from[i + j]), norm, errors) : (half_bits)0;
            store_four(row_tiles, row, i, bits);
        }
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) errors += __shfl_down_sync(ALL, errors, offset);
    if (lane > 0) return;
    if (exists) norms[row] = norm;
    float error = __fmaf_ru(__fsqrt_ru(errors), grow, 0x1p-60f);
    float size = __fadd_ru(__fmaf_ru(__fmul_ru(norm, __fsqrt_ru(sum)), grow, 0x1p-60f), error);
    bounds[row] = special ? make_float2(0.0f, INFINITE) : make_float2(size, error);
}

#define PREPARE(type, from, format, half)                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) exact_prepare_##from##_##format(                                         \
        const type *rows, float *norms, char *tiles, float2 *bounds, unsigned *specials, u64 first, u64 count, u64 end, u64 dim,    \
        float grow, unsigned cosine) {                                                                                             \
        prepare<type, half>(rows, norms, tiles, bounds, specials, first, count, end, dim, grow, cosine);                           \
    }
PREPARE(float, f32, bf16, false)
PREPARE(float, f32, f16, true)
PREPARE(half_bits, f16, bf16, false)
PREPARE(half_bits, f16, f16, true)
PREPARE(bfloat_bits, bf16, bf16, false)
PREPARE(bfloat_bits, bf16, f16, true)

// One warp for each block of targets. `specials` begins with the number of special rows, which is 0 before; the first `most`
// are listed after it.
extern "C" __global__ void __launch_bounds__(THREADS)
    exact_tile_bounds(const float2 *bounds, float2 *tile_bounds, unsigned *specials, unsigned most, unsigned tiles, unsigned rows) {
    unsigned tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (tile >= tiles) return;
    float size = 0.0f, error = 0.0f;
    for (unsigned i = lane; i < BLOCK_T; i += 32) {
        float2 bound = bounds[(u64)tile * BLOCK_T + i];
        if (bound.y < INFINITE) {
            size = fmaxf(size, bound.x), error = fmaxf(error, bound.y);
        } else if ((u64)tile * BLOCK_T + i < rows) {
            unsigned at = atomicAdd(specials, 1);
            if (at < most) specials[1 + at] = tile * BLOCK_T + i;
        }
    }
    for (unsigned offset = 16; offset > 0; offset /= 2)
        size = fmaxf(size, __shfl_down_sync(ALL, size, offset)), error = fmaxf(error, __shfl_down_sync(ALL, error, offset));
    if (lane == 0) tile_bounds[tile] = make_float2(size, error);
}

// ------------------------------------------------------------------------------------------------------------------- thresholds

// The k-th largest of `count` numbers, or 0 if there are fewer; the whole block calls it together. `key(i)` is the i-th number.
template <typename Key>
static __device__ __forceinline__ unsigned largest(unsigned count, unsigned k, unsigned *room, Key key) {
    if (count < k) return 0;
    unsigned *bins = room, *found = room + 256, *warps = room + 258;
    unsigned prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        bins[threadIdx.x] = 0;
        __syncthreads();
        for (unsigned i = threadIdx.x; i < count; i += THREADS) {
            unsigned value = key(i);
            if (shift == 24 || value >> (shift + 8) == prefix) atomicAdd(&bins[value >> shift & 255], 1);
        }
        __syncthreads();
        // From the highest bin down: the number of entries in this bin and above.
        unsigned bin = 255 - threadIdx.x, own = bins[bin], sum = own, lane = threadIdx.x % 32;
        for (unsigned offset = 1; offset < 32; offset *= 2) {
            unsigned other = __shfl_up_sync(ALL, sum, offset);
            if (lane >= offset) sum += other;
        }
        if (lane == 31) warps[threadIdx.x / 32] = sum;
        __syncthreads();
        for (unsigned warp = 0; warp < threadIdx.x / 32; warp++) sum += warps[warp];
        if (sum >= k && sum - own < k) found[0] = bin, found[1] = k - (sum - own);
        __syncthreads();
        prefix = prefix << 8 | found[0];
        k = found[1];
        __syncthreads();
    }
    return prefix;
}

#define ROOM (256 + 2 + THREADS / 32)

// One block for each query. If the bound does not hold for a query, it goes to the fallback: its threshold is +inf, its count
// beyond the capacity.
extern "C" __global__ void __launch_bounds__(THREADS)
    exact_thresholds(const float *best, const float2 *query_bounds, float *thresholds, unsigned *counts, unsigned *given_up,
                     unsigned sampled, unsigned capacity, unsigned k) {
    __shared__ unsigned room[ROOM];
    unsigned query = blockIdx.x;
    best += (u64)query * sampled;
    unsigned key = largest(sampled, k, room, [&](unsigned i) { return ordered(best[i]); });
    if (threadIdx.x > 0) return;
    bool holds = query_bounds[query].y < INFINITE;
    thresholds[query] = !holds ? INFINITE : key == 0 ? -INFINITE : from_ordered(key);
    counts[query] = holds ? 0 : capacity + 1;
    if (query == 0) *given_up = 0;
}

// A lower bound of a candidate's exact score; 0 for special rows, because nothing is known about their scores.
static __device__ __forceinline__ unsigned low_key(uint2 candidate, float2 query_bound, const float2 *target_bounds, float kappa, float tiny) {
    float2 bound = target_bounds[candidate.x];
    float low = __fsub_rd(__uint_as_float(candidate.y), error_bound(query_bound, bound, kappa, tiny));
    return bound.y < INFINITE ? ordered(low) : 0;
}

// Better thresholds from the candidates so far, one block for each query.
extern "C" __global__ void __launch_bounds__(THREADS)
    exact_tighten(const float2 *query_bounds, const float2 *target_bounds, float *thresholds, const unsigned *counts, const uint2 *kept,
                  unsigned capacity, unsigned k, float kappa, float tiny) {
    __shared__ unsigned room[ROOM];
    unsigned query = blockIdx.x, count = counts[query];
    if (count > capacity) return;
    kept += (u64)query * capacity;
    float2 query_bound = query_bounds[query];
    unsigned key = largest(count, k, room, [&](unsigned i) { return low_key(kept[i], query_bound, target_bounds, kappa, tiny); });
    if (threadIdx.x == 0 && key != 0) thresholds[query] = fmaxf(thresholds[query], from_ordered(key));
}

// ---------------------------------------------------------------------------------------------------------------------- rescore

// `given_up`: the number of fallback queries, then their indices. `sums` over all launches: fallback queries, candidates, and
// scored rows.
template <typename T>
static __device__ __forceinline__ void rescore(const float *queries, const T *targets, const float *query_norms,
                                               const float *target_norms, const float2 *query_bounds, const float2 *target_bounds,
                                               const unsigned *counts, const uint2 *kept, const unsigned *specials,
                                               unsigned *given_up, u64 *sums, float *scores, unsigned *indices, u64 dim,
                                               unsigned capacity, unsigned most, unsigned most_special, unsigned k, float kappa,
                                               float tiny, char *memory, unsigned *room, unsigned *left) {
    // Elements of rows and of the query, then the surviving candidates.
    float *lines = (float *)memory, *own = lines + ROWS * LINE;
    u64 *order = (u64 *)(own + LINE);
    float *values = (float *)(order + most);
    unsigned query = blockIdx.x, count = counts[query], special = specials[0];
    bool gives_up = count > capacity || special > most_special;
    if (!gives_up) {
        kept += (u64)query * capacity;
        float2 query_bound = query_bounds[query];
        if (threadIdx.x == 0) *left = 0;
        __syncthreads();
        unsigned key = largest(count, k, room, [&](unsigned i) { return low_key(kept[i], query_bound, target_bounds, kappa, tiny); });
        float least = key == 0 ? -INFINITE : from_ordered(key);
        for (unsigned i = threadIdx.x; i < count; i += THREADS) {
            float2 bound = target_bounds[kept[i].x];
            float high = __fadd_ru(__uint_as_float(kept[i].y), error_bound(query_bound, bound, kappa, tiny));
            if (bound.y < INFINITE && high >= least) {
                unsigned at = atomicAdd(left, 1);
                if (at < most) order[at] = kept[i].x;
            }
        }
        __syncthreads();
        if (threadIdx.x < special) {
            unsigned at = *left + threadIdx.x;
            if (at < most) order[at] = specials[1 + threadIdx.x];
        }
        gives_up = *left + special > most;
    }
    unsigned survivors = gives_up ? 0 : *left + special;
    if (threadIdx.x == 0) {
        if (gives_up) given_up[1 + atomicAdd(given_up, 1)] = query;
        atomicAdd(&sums[0], (u64)gives_up);
        atomicAdd(&sums[1], (u64)(count < capacity ? count : capacity));
        atomicAdd(&sums[2], (u64)survivors);
    }
    if (gives_up) return;
    __syncthreads();

    // Scores in the order of cosine_top_k_partial: one sum for each pair, element by element, then the two norms.
    queries += (u64)query * dim;
    float query_norm = query_norms[query];
    for (unsigned first = 0; first < survivors; first += ROWS) {
        unsigned rows = survivors - first < ROWS ? survivors - first : ROWS;
        float sum = 0.0f;
        for (u64 begin = 0; begin < dim; begin += PART) {
            unsigned length = dim - begin < PART ? (unsigned)(dim - begin) : PART;
            if (aligned(targets, dim)) {
                for (unsigned i = threadIdx.x; i < rows * (PART / 4); i += THREADS) {
                    unsigned row = i / (PART / 4), at = i % (PART / 4) * 4;
                    if (at < length) load_four(targets + order[first + row] * dim + begin + at, &lines[row * LINE + at]);
                }
            } else {
                for (unsigned i = threadIdx.x; i < rows * PART; i += THREADS) {
                    unsigned row = i / PART, at = i % PART;
                    if (at < length) lines[row * LINE + at] = to_float(targets[order[first + row] * dim + begin + at]);
                }
            }
            if (threadIdx.x < length) own[threadIdx.x] = queries[begin + threadIdx.x];
            __syncthreads();
            if (threadIdx.x < rows) {
                const float *line = lines + threadIdx.x * LINE;
                unsigned i = 0;
                for (; i + 4 <= length; i += 4) {
                    float4 t = *(const float4 *)&line[i], q = *(const float4 *)&own[i];
                    sum = fmaf(q.x, t.x, sum), sum = fmaf(q.y, t.y, sum), sum = fmaf(q.z, t.z, sum), sum = fmaf(q.w, t.w, sum);
                }
                for (; i < length; i++) sum = fmaf(own[i], line[i], sum);
            }
            __syncthreads();
        }
        if (threadIdx.x < rows) {
            // That kernel pads rows with 0, which changes -0 to 0.
            if (dim % 16 != 0) sum = fmaf(0.0f, 0.0f, sum);
            unsigned index = (unsigned)order[first + threadIdx.x];
            float score = __fmul_rn(__fmul_rn(sum, query_norm), target_norms[index]);
            // A score that is not above -inf is in no list.
            bool listed = score > -INFINITE;
            values[first + threadIdx.x] = listed ? score : -INFINITE;
            order[first + threadIdx.x] = listed ? (u64)~ordered(score) << 32 | index : ~0ull;
        }
    }
    unsigned size = 1;
    while (size < survivors) size *= 2;
    for (unsigned i = survivors + threadIdx.x; i < size; i += THREADS) values[i] = -INFINITE, order[i] = ~0ull;
    __syncthreads();
    for (unsigned width = 2; width <= size; width *= 2)
        for (unsigned step = width / 2; step > 0; step /= 2) {
            for (unsigned i = threadIdx.x; i < size / 2; i += THREADS) {
                unsigned low = i / step * step * 2 + i % step, high = low + step;
                u64 a = order[low], b = order[high];
                if ((a > b) == ((low & width) == 0)) {
                    float value = values[low];
                    order[low] = b, order[high] = a, values[low] = values[high], values[high] = value;
                }
            }
            __syncthreads();
        }
    for (unsigned i = threadIdx.x; i < k; i += THREADS) {
        scores[(u64)query * k + i] = i < survivors ? values[i] : -INFINITE;
        indices[(u64)query * k + i] = i < survivors ? (unsigned)order[i] : NONE;
    }
}

#define RESCORE(type, from)                                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS) exact_rescore_##from(                                                    \
        const float *queries, const type *targets, const float *query_norms, const float *target_norms,                            \
        const float2 *query_bounds, const float2 *target_bounds, const unsigned *counts, const uint2 *kept,                        \
        const unsigned *specials, unsigned *given_up, u64 *sums, float *scores, unsigned *indices, u64 dim, u64 limits,            \
        float kappa, float tiny) {                                                                                                 \
        extern __shared__ __align__(16) char memory[];                                                                             \
        __shared__ unsigned room[ROOM], left;                                                                                   \
        rescore(queries, targets, query_norms, target_norms, query_bounds, target_bounds, counts, kept, specials, given_up, sums,  \
                scores, indices, dim, (unsigned)limits & 0xfffff, (unsigned)(limits >> 20) & 0xffff,                               \
                (unsigned)(limits >> 36) & 0xfff, (unsigned)(limits >> 48), kappa, tiny, memory, room, &left);                     \
    }
RESCORE(float, f32)
RESCORE(half_bits, f16)
RESCORE(bfloat_bits, bf16)

// One block for each query; the first `given_up[0]` blocks copy one query each.
extern "C" __global__ void __launch_bounds__(THREADS)
    exact_gather(const float *queries, const float *norms, const unsigned *given_up, float *rows, float *row_norms, u64 dim) {
    if (blockIdx.x >= given_up[0]) return;
    unsigned query = given_up[1 + blockIdx.x];
    for (u64 i = threadIdx.x; i < dim; i += THREADS) rows[blockIdx.x * dim + i] = queries[query * dim + i];
    if (threadIdx.x == 0) row_norms[blockIdx.x] = norms[query];
}

// The number of scores in a descending list that come before `score`; `equal`: also those that are equal to it.
static __device__ __forceinline__ unsigned before(const float *scores, unsigned count, float score, bool equal) {
    unsigned low = 0;
    while (low < count) {
        unsigned middle = (low + count) / 2;
        if (scores[middle] > score || (equal && scores[middle] == score))
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

// One block for each query. The piece has `piece_k` places in its lists, and begins with target `first`; the lists have `k`. With
// the first piece the lists are still undefined. For equal scores the earlier piece has the lower indices.
extern "C" __global__ void __launch_bounds__(THREADS)
    exact_merge(const float *piece_scores, const unsigned *piece_indices, float *scores, unsigned *indices, unsigned piece_k, unsigned k,
                unsigned first) {
    extern __shared__ __align__(16) char memory[];
    float *old = (float *)memory, *fresh = old + k;
    unsigned *old_indices = (unsigned *)(fresh + piece_k), *fresh_indices = old_indices + k;
    u64 list = (u64)blockIdx.x * k, piece = (u64)blockIdx.x * piece_k;
    for (unsigned i = threadIdx.x; i < k; i += THREADS) {
        old[i] = first ? scores[list + i] : -INFINITE;
        old_indices[i] = first ? indices[list + i] : NONE;
    }
    for (unsigned i = threadIdx.x; i < piece_k; i += THREADS) {
        unsigned index = piece_indices[piece + i];
        fresh[i] = piece_scores[piece + i], fresh_indices[i] = index == NONE ? NONE : index + first;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < k; i += THREADS) {
        unsigned at = i + before(fresh, piece_k, old[i], false);
        if (at < k) scores[list + at] = old[i], indices[list + at] = old_indices[i];
    }
    for (unsigned i = threadIdx.x; i < piece_k; i += THREADS) {
        unsigned at = i + before(old, k, fresh[i], true);
        if (at < k) scores[list + at] = fresh[i], indices[list + at] = fresh_indices[i];
    }
}
