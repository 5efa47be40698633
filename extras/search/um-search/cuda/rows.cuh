// Rows of vectors: reading elements, and the sum of squares with one order of additions for all kernels.

#pragma once

#define NONE 0xffffffffu
#define ALL 0xffffffffu

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

// The sum of the squares of a row, in lane 0; the whole warp calls it together.
template <typename T> static __device__ __forceinline__ float square_sum(const T *row, u64 dim) {
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
            for (unsigned j = 0; j < 4; j++) sum = fmaf(four[j], four[j], sum);
        }
    }
    for (u64 i = rest + lane; i < dim; i += 32) {
        float value = to_float(row[i]);
        sum = fmaf(value, value, sum);
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(ALL, sum, offset);
    return sum;
}

static __device__ __forceinline__ float inverse_norm(float square_sum) {
    return square_sum > 0.0f ? 1.0f / sqrtf(square_sum) : 0.0f;
}
