// Copy kernels with two access patterns.
//
//   copy_coalesced_f32    adjacent threads copy adjacent elements: the 32 accesses of a warp use four sectors on each side
//   copy_strided_f32      adjacent threads copy elements `stride` apart: one sector for each access. `stride` divides `count`

typedef unsigned long long u64;

extern "C" __global__ void copy_coalesced_f32(const float *in, float *out, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) out[i] = in[i];
}

extern "C" __global__ void copy_strided_f32(const float *in, float *out, u64 count, u64 stride) {
    u64 step = (u64)gridDim.x * blockDim.x;
    u64 rows = count / stride;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        // Thread i copies row i % rows of column i / rows: every element once.
        u64 at = i % rows * stride + i / rows;
        out[at] = in[at];
    }
}
