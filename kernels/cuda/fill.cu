// Sets every element to one value, for each element size.

typedef unsigned long long u64;

template <typename T> static __device__ __forceinline__ void fill(T *out, T value, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) out[i] = value;
}

extern "C" __global__ void fill_u8(unsigned char *out, unsigned char value, u64 count) { fill(out, value, count); }
extern "C" __global__ void fill_u16(unsigned short *out, unsigned short value, u64 count) { fill(out, value, count); }
extern "C" __global__ void fill_u32(unsigned *out, unsigned value, u64 count) { fill(out, value, count); }
extern "C" __global__ void fill_u64(u64 *out, u64 value, u64 count) { fill(out, value, count); }
