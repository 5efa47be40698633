// The parts of the exact search after its filter: thresholds are computed from the sample and from candidates, and the
// remaining candidates are scored bit for bit as in cosine_top_k.cu. exact-search.md has the proof that no result is lost.
//
//   exact_thresholds   the k-th best of the sample, one block for each query
//   exact_tighten      better thresholds from the candidates of the first blocks; one block a query
//   exact_rescore      candidates that may reach the k-th best score, their exact scores, and the best k; one block a query
//   exact_merge        the lists of a piece of the targets merged into the lists of the pieces before it
//   exact_gather       the rows of fallback queries, for cosine_top_k_partial_some

#include "exact.cuh"

#define THREADS 256
#define ROWS 64       // candidates scored at a time
#define PART 128      // elements of each in shared memory at a time
#define LINE (PART + 4)
#define KEYS (ROWS * LINE)

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

// A block's shared memory: elements of rows and of the query, then the targets to score and their scores.
struct Shared {
    float *lines, *own, *values;
    u64 *order;
    unsigned *room, *left;

    __device__ __forceinline__ Shared(char *memory, unsigned most, unsigned *room, unsigned *left) : room(room), left(left) {
        lines = (float *)memory, own = lines + ROWS * LINE;
        order = (u64 *)(own + LINE), values = (float *)(order + most);
    }
};

// Scores the targets order[first..end) in the order of cosine_top_k_partial: one sum for each pair, element by element, then the
// two norms. Their places get a key by which they are sorted, with the target in the low half. The whole block calls it.
template <typename T>
static __device__ __forceinline__ void score(const Shared &shared, const float *query, const T *targets, float query_norm,
                                             const float *target_norms, u64 dim, unsigned begin_at, unsigned end) {
    float *lines = shared.lines, *own = shared.own;
    u64 *order = shared.order;
    for (unsigned first = begin_at; first < end; first += ROWS) {
        unsigned rows = end - first < ROWS ? end - first : ROWS;
        float sum = 0.0f, norm = threadIdx.x < rows ? target_norms[(unsigned)order[first + threadIdx.x]] : 0.0f, power = row_power(norm);
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
            if (threadIdx.x < length) own[threadIdx.x] = query[begin + threadIdx.x];
            __syncthreads();
            if (threadIdx.x < rows) {
                const float *line = lines + threadIdx.x * LINE;
                unsigned i = 0;
#pragma unroll 4
                for (; i + 4 <= length; i += 4) {
                    float4 t = *(const float4 *)&line[i], q = *(const float4 *)&own[i];
                    sum = fmaf(q.x, t.x * power, sum), sum = fmaf(q.y, t.y * power, sum);
                    sum = fmaf(q.z, t.z * power, sum), sum = fmaf(q.w, t.w * power, sum);
                }
                for (; i < length; i++) sum = fmaf(own[i], line[i] * power, sum);
            }
            __syncthreads();
        }
        if (threadIdx.x < rows) {
            // That kernel pads rows with 0, which changes -0 to 0.
            if (dim % 16 != 0) sum = fmaf(0.0f, 0.0f, sum);
            unsigned index = (unsigned)order[first + threadIdx.x];
            float score = __fmul_rn(__fmul_rn(sum, query_norm), fabsf(norm));
            // A score that is not above -inf is in no list.
            bool listed = score > -INFINITE;
            shared.values[first + threadIdx.x] = listed ? score : -INFINITE;
            order[first + threadIdx.x] = listed ? (u64)~ordered(score) << 32 | index : ~0ull;
        }
    }
    __syncthreads();
}

// Scores the targets with the k highest keys, of which the k-th is `key`, and puts them at the begin of the order. At least k
// targets have the returned score, or a higher one. The whole block calls it.
template <typename T, typename Key, typename Target>
static __device__ __forceinline__ float best(const Shared &shared, unsigned count, unsigned key, unsigned k, const float *query,
                                             const T *targets, float query_norm, const float *target_norms, u64 dim, Key key_of,
                                             Target target_of) {
    if (threadIdx.x == 0) *shared.left = 0;
    __syncthreads();
    // Fewer than k are above the key.
    for (unsigned above = 1; above < 2; above--) {
        for (unsigned i = threadIdx.x; i < count; i += THREADS) {
            unsigned own = key_of(i);
            if (above ? own <= key : own != key) continue;
            unsigned at = atomicAdd(shared.left, 1);
            if (at < k) shared.order[at] = target_of(i);
        }
        __syncthreads();
    }
    score(shared, query, targets, query_norm, target_norms, dim, 0, k);
    if (threadIdx.x == 0) shared.room[0] = 0xffffffffu, *shared.left = k;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < k; i += THREADS) atomicMin(&shared.room[0], ordered(shared.values[i]));
    __syncthreads();
    return from_ordered(shared.room[0]);
}

// Thresholds from the sample, one block for each query; in 8 bits from exact scores. If the bound does not hold for a query, it
// goes to the fallback: its threshold is +inf, its count beyond the capacity.
template <typename T>
static __device__ __forceinline__ void thresholds(const float *queries, const T *targets, const float *query_norms,
                                                  const float *target_norms, const float2 *query_bounds, const float *best_scores,
                                                  float *thresholds, unsigned *counts, unsigned *given_up, u64 dim, unsigned groups,
                                                  unsigned period, unsigned capacity, unsigned k, unsigned exact,
                                                  const Shared &shared) {
    unsigned query = blockIdx.x;
    best_scores += (u64)query * groups;
    auto key_of = [&](unsigned i) { return ordered(best_scores[i]); };
    auto target_of = [&](unsigned i) {
        return i / GROUPS * period * BLOCK_T + GROUP_TARGET(i % GROUPS, __float_as_uint(best_scores[i]) & 15);
    };
    bool holds = query_bounds[query].y < INFINITE;
    unsigned key = largest(groups, k, shared.room, key_of);
    float least = key == 0 ? -INFINITE : from_ordered(key);
    if (exact && holds && least > -INFINITE)
        least = best(shared, groups, key, k, queries + query * dim, targets, query_norms[query], target_norms, dim, key_of, target_of);
    if (threadIdx.x > 0) return;
    thresholds[query] = holds ? least : INFINITE;
    counts[query] = holds ? 0 : capacity + 1;
    if (query == 0) *given_up = 0;
}

#define THRESHOLDS(type, from)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) exact_thresholds_##from(                                                 \
        const float *queries, const type *targets, const float *query_norms, const float *target_norms,                            \
        const float2 *query_bounds, const float *best, float *least, unsigned *counts, unsigned *given_up, u64 dim,                \
        unsigned groups, unsigned period, unsigned capacity, unsigned k, unsigned exact) {                                         \
        extern __shared__ __align__(16) char memory[];                                                                             \
        __shared__ unsigned room[ROOM], left;                                                                                      \
        thresholds(queries, targets, query_norms, target_norms, query_bounds, best, least, counts, given_up, dim, groups, period,  \
                   capacity, k, exact, Shared(memory, k, room, &left));                                                            \
    }
THRESHOLDS(float, f32)
THRESHOLDS(half_bits, f16)
THRESHOLDS(bfloat_bits, bf16)

// The candidates of a query, with the parts of the bound. The lower bounds of most are also in shared memory, where the elements
// of rows are later.
struct Kept {
    uint2 *kept;
    const unsigned *keys;
    unsigned count;
    float2 query_bound;
    const float2 *target_bounds;
    float kappa, tiny;

    // A lower bound of a candidate's exact score; 0 for special rows, because nothing is known about their scores.
    __device__ __forceinline__ unsigned low(unsigned i) const {
        float2 bound = target_bounds[kept[i].x];
        float low = __fsub_rd(__uint_as_float(kept[i].y), error_bound(query_bound, bound, kappa, tiny));
        return bound.y < INFINITE ? ordered(low) : 0;
    }

    __device__ __forceinline__ unsigned key(unsigned i) const { return i < KEYS ? keys[i] : low(i); }

    // The whole block calls it.
    __device__ __forceinline__ void store_keys(float *lines) {
        unsigned *to = (unsigned *)lines;
        for (unsigned i = threadIdx.x; i < count && i < KEYS; i += THREADS) to[i] = low(i);
        keys = to;
        __syncthreads();
    }

    // True if the exact score may be `least` or more; false for special rows, which are scored in any case.
    __device__ __forceinline__ bool reaches(uint2 candidate, float least) const {
        float2 bound = target_bounds[candidate.x];
        return bound.y < INFINITE && __fadd_ru(__uint_as_float(candidate.y), error_bound(query_bound, bound, kappa, tiny)) >= least;
    }

    // See `best`; the candidates with the highest lower bounds.
    template <typename T>
    __device__ __forceinline__ float best_score(const Shared &shared, unsigned key, unsigned k, const float *query, const T *targets,
                                                float query_norm, const float *target_norms, u64 dim) const {
        return best(shared, count, key, k, query, targets, query_norm, target_norms, dim, [&](unsigned i) { return this->key(i); },
                    [&](unsigned i) { return kept[i].x; });
    }
};

// Better thresholds from the candidates so far, one block for each query; with `exact` from exact scores. Candidates below the
// threshold are dropped, and added to `sums`.
template <typename T>
static __device__ __forceinline__ void tighten(const float *queries, const T *targets, const float *query_norms,
                                               const float *target_norms, const float2 *query_bounds, const float2 *target_bounds,
                                               float *thresholds, unsigned *counts, uint2 *kept, u64 *sums, u64 dim,
                                               unsigned capacity, unsigned k, unsigned exact, float kappa, float tiny,
                                               const Shared &shared) {
    unsigned query = blockIdx.x, count = counts[query];
    if (count > capacity) return;
    Kept list = {kept + (u64)query * capacity, 0, count, query_bounds[query], target_bounds, kappa, tiny};
    list.store_keys(shared.lines);
    unsigned key = largest(count, k, shared.room, [&](unsigned i) { return list.key(i); });
    if (key == 0) return;
    float least = fmaxf(thresholds[query], from_ordered(key));
    if (exact)
        least = fmaxf(least, list.best_score(shared, key, k, queries + query * dim, targets, query_norms[query], target_norms, dim));
    __syncthreads();
    if (threadIdx.x == 0) *shared.left = 0, thresholds[query] = least;
    for (unsigned first = 0; first < count; first += THREADS) {
        uint2 candidate = make_uint2(0, 0);
        if (first + threadIdx.x < count) candidate = list.kept[first + threadIdx.x];
        __syncthreads();
        if (first + threadIdx.x < count && list.reaches(candidate, least)) list.kept[atomicAdd(shared.left, 1)] = candidate;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    counts[query] = *shared.left;
    atomicAdd(&sums[1], (u64)(count - *shared.left));
}

#define TIGHTEN(type, from)                                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) exact_tighten_##from(                                                    \
        const float *queries, const type *targets, const float *query_norms, const float *target_norms,                            \
        const float2 *query_bounds, const float2 *target_bounds, float *thresholds, unsigned *counts, uint2 *kept, u64 *sums,      \
        u64 dim, unsigned capacity, unsigned k, unsigned exact, float kappa, float tiny) {                                         \
        extern __shared__ __align__(16) char memory[];                                                                             \
        __shared__ unsigned room[ROOM], left;                                                                                      \
        tighten(queries, targets, query_norms, target_norms, query_bounds, target_bounds, thresholds, counts, kept, sums, dim,     \
                capacity, k, exact, kappa, tiny, Shared(memory, k, room, &left));                                                  \
    }
TIGHTEN(float, f32)
TIGHTEN(half_bits, f16)
TIGHTEN(bfloat_bits, bf16)

// ---------------------------------------------------------------------------------------------------------------------- rescore

// The targets that may reach a query's list, in `order` from the beginning; returns how many are already scored. If they are
// more than are scored at a time, exact scores of the best give a better threshold first.
template <typename T>
static __device__ __forceinline__ unsigned select(const Shared &shared, Kept list, unsigned most, unsigned k, const float *query,
                                                  const T *targets, float query_norm, const float *target_norms, u64 dim) {
    if (threadIdx.x == 0) *shared.left = 0;
    list.store_keys(shared.lines);
    unsigned key = largest(list.count, k, shared.room, [&](unsigned i) { return list.key(i); });
    float least = key == 0 ? -INFINITE : from_ordered(key);
    auto keep = [&](unsigned scored) {
        for (unsigned i = threadIdx.x; i < list.count; i += THREADS) {
            uint2 candidate = list.kept[i];
            if (!list.reaches(candidate, least)) continue;
            if (scored > 0) {
                unsigned low = list.low(i);
                bool done = low > key;
                for (unsigned at = 0; low == key && !done && at < scored; at++) done = (unsigned)shared.order[at] == candidate.x;
                if (done) continue;
            }
            unsigned at = atomicAdd(shared.left, 1);
            if (at < most) shared.order[at] = candidate.x;
        }
        __syncthreads();
    };
    keep(0);
    unsigned survivors = *shared.left;
    __syncthreads();
    if (key == 0 || survivors <= ROWS) return 0;
    least = fmaxf(least, list.best_score(shared, key, k, query, targets, query_norm, target_norms, dim));
    keep(k);
    return k;
}

// `given_up`: the number of fallback queries, then their indices. `sums` over all launches: fallback queries, candidates, and
// scored rows.
template <typename T>
static __device__ __forceinline__ void rescore(const float *queries, const T *targets, const float *query_norms,
                                               const float *target_norms, const float2 *query_bounds, const float2 *target_bounds,
                                               const unsigned *counts, uint2 *kept, const unsigned *specials,
                                               unsigned *given_up, u64 *sums, float *scores, unsigned *indices, u64 dim,
                                               unsigned capacity, unsigned most, unsigned most_special, unsigned k, float kappa,
                                               float tiny, char *memory, unsigned *room, unsigned *left) {
    Shared shared(memory, most, room, left);
    u64 *order = shared.order;
    float *values = shared.values;
    unsigned query = blockIdx.x, count = counts[query], special = specials[0], scored = 0;
    queries += (u64)query * dim;
    float query_norm = query_norms[query];
    bool gives_up = count > capacity || special > most_special;
    if (!gives_up) {
        Kept list = {kept + (u64)query * capacity, 0, count, query_bounds[query], target_bounds, kappa, tiny};
        scored = select(shared, list, most, k, queries, targets, query_norm, target_norms, dim);
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

    score(shared, queries, targets, query_norm, target_norms, dim, scored, survivors);
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
    extern "C" __global__ void __launch_bounds__(THREADS, 4) exact_rescore_##from(                                                    \
        const float *queries, const type *targets, const float *query_norms, const float *target_norms,                            \
        const float2 *query_bounds, const float2 *target_bounds, const unsigned *counts, uint2 *kept,                        \
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
