// The sum of an array.
//
//   reduce_sum_f32          each block sums a part in shared memory; a second launch adds the sums of the blocks. The order
//                           of the additions depends only on the launch, so that every run gives the same result
//   reduce_sum_naive_f32    every thread adds its element to one address: a bad example, for comparison

#define THREADS 256

typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(THREADS) reduce_sum_f32(const float *in, float *out, u64 count) {
    __shared__ float sums[THREADS];
    float sum = 0.0f;
    u64 step = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) sum += in[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}

extern "C" __global__ void reduce_sum_naive_f32(const float *in, float *out, u64 count) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(out, in[i]);
}
