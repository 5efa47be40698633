// The kernels of mini_framework, for six element types. Each thread handles one element.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

// Half precision as bits: arithmetic is in float, rounded to the nearest.
static __device__ float f16_to(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
static __device__ u16 f16_of(float x) { u16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
static __device__ float bf16_to(u16 x) { return __uint_as_float((u32)x << 16); }
static __device__ u16 bf16_of(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (bits >> 16) | 0x40;
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

#define AT u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; if (i >= count) return;

// out[i] = a[i] + b[i], a[i] * b[i], a[i] * factor; `out` may be `a`
#define KERNELS(NAME, T, ADD, MUL) \
    extern "C" __global__ void add_##NAME(const T *a, const T *b, T *out, u64 count) { AT T x = a[i], y = b[i]; out[i] = ADD; } \
    extern "C" __global__ void mul_##NAME(const T *a, const T *b, T *out, u64 count) { AT T x = a[i], y = b[i]; out[i] = MUL; } \
    extern "C" __global__ void scale_##NAME(const T *a, T y, T *out, u64 count) { AT T x = a[i]; out[i] = MUL; }

KERNELS(f32, float, x + y, x * y)
KERNELS(f16, u16, f16_of(f16_to(x) + f16_to(y)), f16_of(f16_to(x) * f16_to(y)))
KERNELS(bf16, u16, bf16_of(bf16_to(x) + bf16_to(y)), bf16_of(bf16_to(x) * bf16_to(y)))
KERNELS(i64, u64, x + y, x * y)
KERNELS(u8, u8, x + y, x * y)
KERNELS(bool, u8, (x | y) != 0, x != 0 && y != 0)

// The shape and the strides of a tensor, in elements.
struct Layout { u64 rank, shape[4], strides[4]; };

// out[i] = element i of the tensor with this layout, in the order of its shape
#define COPY(NAME, T) \
    extern "C" __global__ void copy_##NAME(const T *input, Layout layout, T *out, u64 count) { \
        AT \
        u64 rest = i, at = 0; \
        for (int d = 3; d >= 0; d--) \
            if (d < layout.rank) { at += rest % layout.shape[d] * layout.strides[d]; rest /= layout.shape[d]; } \
        out[i] = input[at]; \
    }

COPY(8, u8)
COPY(16, u16)
COPY(32, u32)
COPY(64, u64)

// out [m, n] = a [m, k] · b [k, n]
extern "C" __global__ void matmul_f32(const float *a, const float *b, float *out, u64 count, u64 k, u64 n) {
    AT
    u64 row = i / n, column = i % n;
    float sum = 0;
    for (u64 j = 0; j < k; j++) sum = fmaf(a[row * k + j], b[j * n + column], sum);
    out[i] = sum;
}
