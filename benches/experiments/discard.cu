// What a discard saves when pages leave the device, and when they come back (CUDA 13.0).
// nvcc -O3 -std=c++17 -arch=sm_90 discard.cu && ./a.out     At most 128 MiB of managed memory.
#include "check.h"
#include <algorithm>
#include <vector>

static const int ROUNDS = 15;

__global__ void fill(float *memory, size_t count) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
        memory[i] = 1.0f;
}

static double microseconds(Clock::time_point from) {
    return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

struct Way {
    const char *name;
    // A kernel has written the pages. If `was_out`, a prefetch has moved them to the host then.
    bool was_out;
    bool discards, prefetches;
    cudaMemLocationType to;
};

static const Way WAYS[] = {
    {"to the host, prefetch", false, false, true, cudaMemLocationTypeHost},
    {"to the host, discard and prefetch in one call", false, true, true, cudaMemLocationTypeHost},
    {"discard alone", false, true, false, cudaMemLocationTypeHost},
    {"to the device, prefetch", true, false, true, cudaMemLocationTypeDevice},
    {"to the device, discard and prefetch in one call", true, true, true, cudaMemLocationTypeDevice},
};

int main() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    printf("%-50s %6s %12s %12s\n", "microseconds, medians of 15", "MiB", "call", "complete");
    for (size_t mib : {2, 8, 32, 128}) {
        size_t bytes = mib << 20;
        float *memory;
        CHECK(cudaMallocManaged(&memory, bytes));
        cudaMemLocation host = {cudaMemLocationTypeHost, 0}, device = {cudaMemLocationTypeDevice, 0};
        CHECK(cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, host));
        void *pointers[] = {memory};
        size_t sizes[] = {bytes}, first[] = {0};
        for (const Way &way : WAYS) {
            std::vector<double> calls, ends;
            for (int round = 0; round < ROUNDS; round++) {
                CHECK(cudaMemPrefetchAsync(memory, bytes, device, 0, stream));
                fill<<<264, 256, 0, stream>>>(memory, bytes / sizeof(float));
                CHECK(cudaGetLastError());
                if (way.was_out)
                    CHECK(cudaMemPrefetchAsync(memory, bytes, host, 0, stream));
                CHECK(cudaStreamSynchronize(stream));
                cudaMemLocation to[] = {{way.to, 0}};
                auto begin = Clock::now();
                if (way.discards && way.prefetches)
                    CHECK(cudaMemDiscardAndPrefetchBatchAsync(pointers, sizes, 1, to, first, 1, 0, stream));
                else if (way.discards)
                    CHECK(cudaMemDiscardBatchAsync(pointers, sizes, 1, 0, stream));
                else
                    CHECK(cudaMemPrefetchAsync(memory, bytes, to[0], 0, stream));
                calls.push_back(microseconds(begin));
                CHECK(cudaStreamSynchronize(stream));
                ends.push_back(microseconds(begin));
            }
            std::sort(calls.begin(), calls.end());
            std::sort(ends.begin(), ends.end());
            printf("%-50s %6zu %12.1f %12.1f\n", way.name, mib, calls[ROUNDS / 2], ends[ROUNDS / 2]);
        }
        CHECK(cudaFree(memory));
    }
}
