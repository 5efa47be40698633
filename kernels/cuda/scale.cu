// out[i] = in[i] * factor

typedef unsigned long long u64;

extern "C" __global__ void scale_f32(const float *in, float *out, float factor, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) out[i] = in[i] * factor;
}
