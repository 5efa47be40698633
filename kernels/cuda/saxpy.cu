// y[i] = a * x[i] + y[i], rounded once

typedef unsigned long long u64;

extern "C" __global__ void saxpy_f32(float a, const float *x, float *y, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) y[i] = fmaf(a, x[i], y[i]);
}
