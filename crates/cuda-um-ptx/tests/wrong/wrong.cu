// Kernels with one defect each. Their author had not read the checker. Each kernel takes (float *out, const float *in, unsigned n). Beside each: what compute-sanitizer of CUDA 13 says on an H200, or the launch's error without a tool; a tool that is not named says nothing.
#define KERNEL extern "C" __global__ void
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define ARGS float *out, const float *in, unsigned n

KERNEL reads_one_past_the_end(ARGS) { if (I < n) out[I] = in[I] + in[I + 1]; } // nothing: the next allocation is behind it
KERNEL has_no_bound_check(ARGS) { out[I] = 2.0f * in[I % n]; } // memcheck: invalid write
KERNEL reads_before_the_start(ARGS) { if (I < n) out[I] = in[(int)I - 1]; } // memcheck: invalid read
KERNEL loads_a_misaligned_pair(ARGS) { if (I < n / 2 - 1) { float2 v = *(const float2 *)(in + 1 + 2 * I); out[I] = v.x + v.y; } } // memcheck: invalid read, launch 716
KERNEL writes_its_input(ARGS) { if (I < n) { ((float *)in)[I] = 0.0f; out[I] = 1.0f; } } // nothing
KERNEL leaves_its_shared_array(ARGS) { __shared__ float s[128]; s[threadIdx.x] = in[I]; s[threadIdx.x + 1] = 1.0f; __syncthreads(); out[I] = s[threadIdx.x]; } // memcheck: invalid write, racecheck: race, launch 700
KERNEL forgets_the_barrier(ARGS) { __shared__ float s[128]; s[threadIdx.x] = in[I]; out[I] = s[127 - threadIdx.x]; } // racecheck: race
KERNEL forgets_the_second_barrier(ARGS) { // racecheck: race
    __shared__ float s[128]; float sum = 0;
    for (unsigned t = 0; t < n; t += 128) {
        s[threadIdx.x] = in[t + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 128; k++) sum += s[k];
    }
    out[I] = sum;
}
KERNEL waits_in_one_branch(ARGS) { // not run: it would not end
    __shared__ float s[64]; s[threadIdx.x] = in[I];
    if (threadIdx.x < 32) { __syncthreads(); out[I] = s[63 - threadIdx.x]; } else { out[I] = s[threadIdx.x]; asm volatile("barrier.sync 1, 64;"); }
}
KERNEL adds_without_atomics(ARGS) { if (I < n) out[0] += in[I]; } // nothing: racecheck looks at shared memory
KERNEL counts_in_shared_memory_without_atomics(ARGS) { // racecheck: race
    __shared__ unsigned bins[8]; if (threadIdx.x < 8) bins[threadIdx.x] = 0; __syncthreads();
    bins[(unsigned)in[I] & 7]++; __syncthreads();
    if (threadIdx.x < 8) atomicAdd(out + threadIdx.x, (float)bins[threadIdx.x]);
}
KERNEL sums_shared_memory_that_nobody_wrote(ARGS) { // nothing: initcheck looks at device memory
    __shared__ float s[128]; if (threadIdx.x < 100) s[threadIdx.x] = in[I]; __syncthreads();
    if (threadIdx.x == 0) { float sum = 0; for (int k = 0; k < 128; k++) sum += s[k]; out[blockIdx.x] = sum; }
}
KERNEL adds_to_memory_that_nobody_wrote(ARGS) { if (I < n) out[I] += in[I]; } // initcheck: uninitialized read
KERNEL follows_a_null_pointer(ARGS) { const float *p = n > 1000000 ? in : nullptr; if (I < n) out[I] = p[I]; } // memcheck: invalid read, launch 700
KERNEL overflows_its_index(ARGS) { int stride = 1 << 30; int at = (int)I * stride; if (I < n) out[I] = in[at]; } // memcheck: invalid read, launch 700
KERNEL writes_half_of_its_output(ARGS) { if (I < n / 2) out[I] = in[I]; } // nothing
KERNEL reads_what_another_block_writes(ARGS) { // nothing: racecheck looks at shared memory
    if (blockIdx.x == 0) out[threadIdx.x] = in[threadIdx.x];
    else out[I] = out[threadIdx.x] + 1.0f;
}
KERNEL never_ends(ARGS) { volatile float *flag = out; while (flag[0] == 0.0f) {} out[I] = 1.0f; } // not run: it does not end
KERNEL reads_doubles(ARGS) { if (I < n) out[I] = (float)((const double *)in)[I]; } // nothing: the next allocation is behind it
KERNEL trusts_the_warp(ARGS) { // racecheck: a warning of a race
    __shared__ float s[32]; s[threadIdx.x] = in[I];
    for (int k = 16; k > 0; k /= 2) if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
KERNEL shuffles_from_a_lane_that_left(ARGS) { // nothing
    if (threadIdx.x < 16) out[I] = __shfl_sync(0xffffffffu, in[I], threadIdx.x + 16);
    else out[I] = 0.0f;
}
KERNEL needs_dynamic_shared_memory(ARGS) { extern __shared__ float d[]; d[threadIdx.x] = in[I]; __syncthreads(); out[I] = d[127 - threadIdx.x]; } // memcheck: invalid write, launch 700
KERNEL adds_at_half_a_word(ARGS) { if (I < n - 1) atomicAdd((float *)((char *)out + 2) + I, in[I]); } // memcheck: invalid atomic, launch 716
KERNEL asserts(ARGS) { if (I >= n) __trap(); out[I] = in[I]; } // memcheck: launch failure, launch 719
