// Conversion of rows to the filter's form.
//
//   exact_prepare      inverse norm, tiles, scales and bounds of rows, one warp for each row
//   exact_tile_bounds  the largest bounds of each block of targets, and the list of special rows

#include "exact.cuh"

#define THREADS 256
#define LEAST_SCALE 0x1p-60f

// How a row is scaled to 8 bits: an element's number is the element times `inverse`, rounded, and stands for `scale` times the
// number. The scale has 16 significant bits, so that this product is exact.
struct Scale {
    float scale, inverse;
};

static __device__ __forceinline__ Scale scale_for(float most) {
    float up = __uint_as_float((__float_as_uint(most * (1.0f / 127)) + 0xff) & ~0xffu);
    float scale = fmaxf(up, LEAST_SCALE);
    return {scale, __frcp_rn(scale)};
}

// A value in 16 bits. Denormal values become 0, and the measured error includes this: nothing depends on how tensor cores
// handle them.
template <int FORMAT> static __device__ __forceinline__ half_bits narrow(float value) {
    half_bits bits;
    if (FORMAT == F16)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    else
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return (bits & (FORMAT == F16 ? 0x7c00 : 0x7f80)) ? bits : (half_bits)0;
}

template <int FORMAT> static __device__ __forceinline__ float widen(half_bits bits) {
    return FORMAT == F16 ? to_float(bits) : __uint_as_float((unsigned)bits << 16);
}

// One scaled element in the format of the tiles; its squared error is added to `errors`.
template <int FORMAT> static __device__ __forceinline__ unsigned convert(float value, float norm, Scale scale, float &errors) {
    unsigned bits;
    float kept;
    if (FORMAT == INT8) {
        float number = fminf(fmaxf(rintf(value * norm * scale.inverse), -127.0f), 127.0f);
        bits = (unsigned)(int)number & 0xff, kept = number * scale.scale;
    } else {
        half_bits narrowed = narrow<FORMAT>(value * norm);
        bits = narrowed, kept = widen<FORMAT>(narrowed);
    }
    float error = fmaf(value, norm, -kept);
    errors = fmaf(error, error, errors);
    return bits;
}

// Stores four elements into a tile: 8 bytes, or 4.
template <int FORMAT> static __device__ __forceinline__ void store_four(char *row_tiles, u64 row, u64 at, const unsigned *bits) {
    u64 byte = at * (128 / TILE_K(FORMAT));
    char *line = row_tiles + byte / 128 * TILE_BYTES + row % BLOCK_Q * 128;
    char *to = line + ((byte % 128 / 16) ^ row % 8) * 16 + byte % 16;
    if (FORMAT == INT8)
        *(unsigned *)to = bits[0] | bits[1] << 8 | bits[2] << 16 | bits[3] << 24;
    else
        *(uint2 *)to = make_uint2(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16);
}

// Norms, tiles, scales (in 8 bits) and bounds of rows `first` to `first + count`. `rows` has those before `end`; the others are
// beyond the end. `specials` is still empty.
template <typename T, int FORMAT>
static __device__ __forceinline__ void prepare(const T *rows, float *norms, char *tiles, float *scales, float2 *bounds,
                                               unsigned *specials, u64 first, u64 count, u64 end, u64 dim, float grow,
                                               unsigned cosine) {
    constexpr unsigned HELD = 8;  // a warp holds this number times 128 elements
    u64 at_row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (at_row == 0) *specials = 0;
    if (at_row >= count) return;
    unsigned lane = threadIdx.x % 32;
    u64 row = first + at_row, blocks = (dim + TILE_K(FORMAT) - 1) / TILE_K(FORMAT), padded = blocks * TILE_K(FORMAT);
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
    float norm = cosine && exists ? row_norm(from, dim, sum) : 1.0f;
    bool special = !exists || !(zero || (sum <= MOST_SQUARES && (!cosine || sum >= LEAST_SQUARES)));
    Scale scale = {LEAST_SCALE, 0.0f};
    if (FORMAT == INT8 && !special && !zero) {
        float most = 0.0f;
        if (held) {
#pragma unroll
            for (unsigned i = 0; i < HELD; i++)
                if (i * 128 < dim)
#pragma unroll
                    for (unsigned j = 0; j < 4; j++) most = fmaxf(most, fabsf(kept[i][j]));
        } else {
            for (u64 i = lane; i < dim; i += 32) most = fmaxf(most, fabsf(to_float(from[i])));
        }
        for (unsigned offset = 16; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, offset));
        scale = scale_for(most * norm);
    }
    float errors = 0.0f;
    unsigned bits[4] = {0, 0, 0, 0};
    if (special || zero) {
        for (u64 i = lane * 4; i < padded; i += 128) store_four<FORMAT>(row_tiles, row, i, bits);
    } else if (held) {
#pragma unroll
        for (unsigned i = 0; i < HELD; i++)
            if (i * 128 < dim) {
#pragma unroll
                for (unsigned j = 0; j < 4; j++) bits[j] = convert<FORMAT>(kept[i][j], norm, scale, errors);
                store_four<FORMAT>(row_tiles, row, i * 128 + lane * 4, bits);
            }
    } else {
        for (u64 i = lane * 4; i < padded; i += 128) {
#pragma unroll
            for (unsigned j = 0; j < 4; j++) bits[j] = i + j < dim ? convert<FORMAT>(to_float(from[i + j]), norm, scale, errors) : 0;
            store_four<FORMAT>(row_tiles, row, i, bits);
        }
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) errors += __shfl_down_sync(ALL, errors, offset);
    if (lane > 0) return;
    if (exists) norms[row] = norm;
    if (FORMAT == INT8) scales[row] = scale.scale;
    float error = __fmaf_ru(__fsqrt_ru(errors), grow, 0x1p-60f);
    float size = __fadd_ru(__fmaf_ru(__fmul_ru(norm, __fsqrt_ru(sum)), grow, 0x1p-60f), error);
    bounds[row] = special ? make_float2(0.0f, INFINITE) : make_float2(size, error);
}

#define PREPARE(type, from, format, FORMAT)                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS) exact_prepare_##from##_##format(                                         \
        const type *rows, float *norms, char *tiles, float *scales, float2 *bounds, unsigned *specials, u64 first, u64 count,      \
        u64 end, u64 dim, float grow, unsigned cosine) {                                                                           \
        prepare<type, FORMAT>(rows, norms, tiles, scales, bounds, specials, first, count, end, dim, grow, cosine);                 \
    }
PREPARE(float, f32, bf16, BF16)
PREPARE(float, f32, f16, F16)
PREPARE(float, f32, int8, INT8)
PREPARE(half_bits, f16, bf16, BF16)
PREPARE(half_bits, f16, f16, F16)
PREPARE(half_bits, f16, int8, INT8)
PREPARE(bfloat_bits, bf16, bf16, BF16)
PREPARE(bfloat_bits, bf16, f16, F16)
PREPARE(bfloat_bits, bf16, int8, INT8)

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
