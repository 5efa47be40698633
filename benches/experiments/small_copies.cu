// Compares ways to copy a few bytes between pageable memory and the GPU, until the bytes have arrived. The library's limits for small
// copies (crates/cuda-um/src/buffer/transfer/piece.rs) come from this output. It needs nvcc and a GPU:
//
//     nvcc -O3 -std=c++17 small_copies.cu -o small_copies && ./small_copies > small_copies.md
//
// 1 MiB of managed memory. A few seconds. The ways of one row take turns in a random order, so a change of the machine's clock meets all of
// them, and each runs twice in a row; only the second time counts.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <immintrin.h>
#include <random>
#include <vector>
#include <cuda.h>
#include "check.h"

const size_t KIB = 1 << 10, LARGEST = 1 << 20;
const int ROUNDS = 400;

static cudaStream_t stream;
static char *pageable, *pinned;
static volatile unsigned *flag;
static unsigned turn = 0;
static decltype(&cuStreamWriteValue32) write_value;

// One side is mapped pinned memory. The last block to end writes the flag.
__global__ void copy_kernel(char *to, const char *from, size_t bytes, unsigned *ended, volatile unsigned *flag, unsigned turn) {
    size_t thread = blockIdx.x * (size_t)blockDim.x + threadIdx.x, threads = gridDim.x * (size_t)blockDim.x;
    for (size_t i = thread; i < bytes / 16; i += threads) ((int4 *)to)[i] = ((const int4 *)from)[i];
    if (thread < bytes % 16) to[bytes / 16 * 16 + thread] = from[bytes / 16 * 16 + thread];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(ended, 1) == gridDim.x - 1) {
        *ended = 0;
        __threadfence_system();
        *flag = turn;
    }
}

__global__ void nothing() {}

static void poll() {
    while (*flag != turn) _mm_pause();
    std::atomic_thread_fence(std::memory_order_acquire);
}

static void synchronize() { CHECK(cudaStreamSynchronize(stream)); }

static void write_and_poll() {
    if (write_value(stream, (CUdeviceptr)flag, ++turn, 0) != CUDA_SUCCESS) exit(1);
    poll();
}

static void query() {
    while (cudaStreamQuery(stream) == cudaErrorNotReady) _mm_pause();
}

static void by_kernel(char *to, const char *from, size_t bytes) {
    static unsigned *ended = nullptr;
    if (!ended) {
        CHECK(cudaMalloc((void **)&ended, 4));
        CHECK(cudaMemset(ended, 0, 4));
    }
    int blocks = (int)std::min<size_t>(32, bytes / 16 / 256 + 1);
    copy_kernel<<<blocks, 256, 0, stream>>>(to, from, bytes, ended, flag, ++turn);
    poll();
}

struct Way {
    const char *name;
    std::function<void()> run;
};

// Prints the median of each way in microseconds, and the best one.
static void row(const char *what, std::vector<Way> ways) {
    std::vector<std::vector<double>> times(ways.size());
    std::vector<size_t> order;
    for (size_t way = 0; way < ways.size(); way++) order.push_back(way);
    std::mt19937 random(7);
    for (int round = 0; round < ROUNDS; round++) {
        std::shuffle(order.begin(), order.end(), random);
        for (size_t way : order) {
            ways[way].run();
            CHECK(cudaDeviceSynchronize());
            auto start = Clock::now();
            ways[way].run();
            double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
            CHECK(cudaStreamSynchronize(stream));
            if (round >= ROUNDS / 10) times[way].push_back(us);
        }
    }
    printf("| %s |", what);
    for (auto &of_way : times) {
        std::sort(of_way.begin(), of_way.end());
        printf(" %.2f |", of_way[of_way.size() / 2]);
    }
    printf("\n");
    fflush(stdout);
}

int main() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", (void **)&write_value, 12000, cudaEnableDefault, &found));
    CHECK(cudaHostAlloc((void **)&pinned, LARGEST, cudaHostAllocMapped));
    CHECK(cudaHostAlloc((void **)&flag, 4096, cudaHostAllocMapped));
    pageable = (char *)aligned_alloc(4096, LARGEST);
    memset(pageable, 1, LARGEST);
    char *device, *managed;
    CHECK(cudaMalloc((void **)&device, LARGEST));
    CHECK(cudaMallocManaged((void **)&managed, LARGEST));
    CHECK(cudaMemset(managed, 0, LARGEST));
    CHECK(cudaDeviceSynchronize());

    cudaDeviceProp properties;
    int driver, runtime;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    printf("%s, driver for CUDA %d, runtime %d. Medians in us, until the bytes have arrived.\n\n", properties.name, driver, runtime);
    printf("| copy | cudaMemcpy, wait | cudaMemcpyAsync, wait | own pinned memory, wait | own pinned memory, write a flag | own pinned memory, query | "
           "kernel and flag |\n|---|---|---|---|---|---|---|\n");
    const size_t sizes[] = {4, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, LARGEST};
    for (bool up : {true, false})
        for (char *gpu : {device, managed})
            for (size_t bytes : sizes) {
                auto kind = gpu == managed ? cudaMemcpyDefault : up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
                auto enqueue = [=](char *host) {
                    CHECK(cudaMemcpyAsync(up ? gpu : host, up ? host : gpu, bytes, kind, stream));
                };
                auto through = [=](void (*wait)()) {
                    return [=] {
                        if (up) memcpy(pinned, pageable, bytes);
                        enqueue(pinned);
                        wait();
                        if (!up) memcpy(pageable, pinned, bytes);
                    };
                };
                char what[64];
                snprintf(what, sizeof what, "%s %s, %zu B", up ? "to" : "from", gpu == managed ? "managed" : "device", bytes);
                row(what, {{"", [=] { CHECK(cudaMemcpy(up ? gpu : pageable, up ? pageable : gpu, bytes, kind)); if (up) CHECK(cudaStreamSynchronize(0)); }},
                           {"", [=] { enqueue(pageable); synchronize(); }},
                           {"", through(synchronize)},
                           {"", through(write_and_poll)},
                           {"", through(query)},
                           {"", [=] {
                                if (up) memcpy(pinned, pageable, bytes);
                                by_kernel(up ? gpu : pinned, up ? pinned : gpu, bytes);
                                if (!up) memcpy(pageable, pinned, bytes);
                            }}});
            }
    printf("\n| wait | synchronize | write a flag | query |\n|---|---|---|---|\n");
    row("for an idle stream", {{"", synchronize}, {"", write_and_poll}, {"", query}});
    auto after = [](void (*wait)()) {
        return [=] {
            nothing<<<1, 32, 0, stream>>>();
            wait();
        };
    };
    row("launch of an empty kernel, and the wait", {{"", after(synchronize)}, {"", after(write_and_poll)}, {"", after(query)}});
    _Exit(0);
}
