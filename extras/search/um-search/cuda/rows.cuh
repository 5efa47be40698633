// Rows of vectors: reading elements, and norms, with one order of additions for all kernels.
//
// Extreme rows are those of a squared norm outside of LEAST_SQUARES to MOST_SQUARES. Their elements are multiplied by a power of two when they
// are read: then no square and no product of a finite row overflows, and none that matters underflows. The inverse norm of such a row is that of
// the multiplied row; its sign bit is set, and its last bit says which power of two belongs to it.

#pragma once

#define NONE 0xffffffffu
#define ALL 0xffffffffu

#define LEAST_SQUARES 0x1p-80f
#define MOST_SQUARES 0x1p120f
#define OF_SMALL_ROW 0x1p96f
#define OF_LARGE_ROW 0x1p-96f

typedef unsigned long long u64;
typedef unsigned short half_bits;
typedef short bfloat_bits;  // a type of its own, so that functions can be overloaded

static __device__ __forceinline__ float to_float(float value) { return value; }

static __device__ __forceinline__ float to_float(half_bits bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

static __device__ __forceinline__ float to_float(bfloat_bits value) { return __uint_as_float((unsigned)value << 16); }

static __device__ __forceinline__ void load_four(const float *from, float *out) {
    float4 four = *(const float4 *)from;
    out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
}

static __device__ __forceinline__ void load_four(const half_bits *from, float *out) {
    uint2 bits = *(const uint2 *)from;
    out[0] = to_float((half_bits)bits.x), out[1] = to_float((half_bits)(bits.x >> 16));
    out[2] = to_float((half_bits)bits.y), out[3] = to_float((half_bits)(bits.y >> 16));
}

static __device__ __forceinline__ void load_four(const bfloat_bits *from, float *out) {
    uint2 bits = *(const uint2 *)from;
    out[0] = __uint_as_float(bits.x << 16), out[1] = __uint_as_float(bits.x & 0xffff0000u);
    out[2] = __uint_as_float(bits.y << 16), out[3] = __uint_as_float(bits.y & 0xffff0000u);
}

// True if groups of four elements may be loaded at once from every row.
template <typename T> static __device__ __forceinline__ bool aligned(const T *rows, u64 dim) {
    return (u64)rows % (4 * sizeof(T)) == 0 && dim % 4 == 0;
}

// The sum of the squares of a row times `power`, in lane 0; the whole warp calls it together.
template <typename T> static __device__ __forceinline__ float square_sum(const T *row, u64 dim, float power = 1.0f) {
    unsigned lane = threadIdx.x % 32;
    float sum = 0.0f;
    u64 rest = 0;
    if (aligned(row, dim)) {
        rest = dim / 128 * 128;
#pragma unroll 6
        for (u64 i = lane * 4; i < rest; i += 128) {
            float four[4];
            load_four(row + i, four);
#pragma unroll
            for (unsigned j = 0; j < 4; j++) sum = fmaf(four[j] * power, four[j] * power, sum);
        }
    }
    for (u64 i = rest + lane; i < dim; i += 32) {
        float value = to_float(row[i]) * power;
        sum = fmaf(value, value, sum);
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(ALL, sum, offset);
    return sum;
}

static __device__ __forceinline__ float inverse_norm(float square_sum) {
    return square_sum > 0.0f ? 1.0f / sqrtf(square_sum) : 0.0f;
}

static __device__ __forceinline__ bool is_extreme(float square_sum) { return !(square_sum >= LEAST_SQUARES && square_sum <= MOST_SQUARES); }

// The inverse norm of a row, from the sum of its squares in lane 0; 0 for a row of zeros. The whole warp calls it together.
template <typename T> static __device__ __forceinline__ float row_norm(const T *row, u64 dim, float sum) {
    sum = __shfl_sync(ALL, sum, 0);
    if (!is_extreme(sum)) return inverse_norm(sum);
    bool small = sum < 1.0f;
    float norm = inverse_norm(__shfl_sync(ALL, square_sum(row, dim, small ? OF_SMALL_ROW : OF_LARGE_ROW), 0));
    if (norm == 0.0f) return norm;
    return __uint_as_float((__float_as_uint(norm) & ~1u) | 0x80000000u | (small ? 1 : 0));
}

// The power of two for the elements of a row with this inverse norm.
static __device__ __forceinline__ float row_power(float norm) {
    unsigned bits = __float_as_uint(norm);
    return !(bits >> 31) ? 1.0f : bits & 1 ? OF_SMALL_ROW : OF_LARGE_ROW;
}

// The product of a query and an extreme row, in the order of cosine_top_k_partial, which pads rows with 0: that changes -0 to 0.
template <typename T>
static __device__ __forceinline__ float extreme_product(const float *query, const T *row, float power, u64 dim) {
    float sum = 0.0f;
#pragma unroll 1
    for (u64 i = 0; i < dim; i++) sum = fmaf(query[i], to_float(row[i]) * power, sum);
    return dim % 16 != 0 ? fmaf(0.0f, 0.0f, sum) : sum;
}
