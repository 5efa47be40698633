// Sets every element to one value, for each element size.
//
// The address need not be a multiple of the element's size: a type of eight bytes may have an alignment of one, but the device
// refuses unaligned stores. In this case the bytes are stored one by one.

typedef unsigned long long u64;

template <typename T> static __device__ __forceinline__ void fill(unsigned char *out, T value, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if ((u64)out % sizeof(T) == 0) {
        for (u64 i = first; i < count; i += step) ((T *)out)[i] = value;
    } else {
        for (u64 i = first; i < count * sizeof(T); i += step) out[i] = (unsigned char)(value >> (i % sizeof(T) * 8));
    }
}

extern "C" __global__ void fill_u8(unsigned char *out, unsigned char value, u64 count) { fill(out, value, count); }
extern "C" __global__ void fill_u16(unsigned char *out, unsigned short value, u64 count) { fill(out, value, count); }
extern "C" __global__ void fill_u32(unsigned char *out, unsigned value, u64 count) { fill(out, value, count); }
extern "C" __global__ void fill_u64(unsigned char *out, u64 value, u64 count) { fill(out, value, count); }
