// What a launch costs the host beyond cuLaunchKernel if something keeps track of its buffers. The floor for the library's launches
// (crates/cuda-um/src/kernel/launch.rs) comes from this output. It needs nvcc and a GPU:
//
//     nvcc -O3 -std=c++17 launch.cu -o launch && ./launch > launch.md
//
// The records are as small as they can be: one cache line for each buffer, one for the stream. The code is a few hundred bytes. A few
// seconds. The ways take turns.
#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>
#include "check.h"

const int LAUNCHES = 100, ROUNDS = 400;

__global__ void nothing(float *, const float *, size_t) {}

struct alignas(64) Record {
    std::atomic<unsigned> lock{0};
    void *stream = nullptr;
    unsigned long number = 0;
};

static cudaStream_t stream;
static float *device[2];
static Record of_stream, of_module;
// The records of many buffers: a program launches with different ones.
static std::vector<Record> of_buffers(2048);
static size_t next_buffer = 0;

static void launch() {
    float *to = device[0];
    const float *from = device[1];
    size_t count = 256;
    void *arguments[] = {&to, &from, &count};
    CHECK(cudaLaunchKernel((void *)nothing, dim3(1), dim3(32), arguments, 0, stream));
}

static void launch_on_checked_device() {
    int current;
    CHECK(cudaGetDevice(&current));
    if (current != 0) CHECK(cudaSetDevice(0));
    launch();
}

template <class F> static void locked(Record &record, F then) {
    while (record.lock.exchange(1, std::memory_order_acquire)) {}
    then();
    record.lock.store(0, std::memory_order_release);
}

// Before the launch: another stream's work would be waited for. After it: the use is recorded.
static void tracked(size_t buffers, bool spread) {
    size_t first = spread ? next_buffer : 0;
    next_buffer = (next_buffer + 2) % of_buffers.size();
    auto each = [&](auto what) {
        for (size_t i = 0; i < buffers; i++) what(of_buffers[(first + i) % of_buffers.size()]);
        what(of_module);
    };
    bool other = false;
    each([&](Record &record) { locked(record, [&] { other |= record.stream != nullptr && record.stream != stream; }); });
    if (other) exit(2);
    launch_on_checked_device();
    unsigned long number;
    locked(of_stream, [&] { number = ++of_stream.number; });
    each([&](Record &record) { locked(record, [&] { record.stream = stream, record.number = number; }); });
}

int main() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (auto &memory : device) CHECK(cudaMalloc((void **)&memory, 4096));
    std::vector<std::pair<const char *, std::function<void()>>> ways = {
        {"cudaLaunchKernel", launch},
        {"and cudaGetDevice", launch_on_checked_device},
        {"and records of the module and the stream", [] { tracked(0, false); }},
        {"and of two buffers", [] { tracked(2, false); }},
        {"and of two buffers out of 2048", [] { tracked(2, true); }},
    };
    std::vector<std::vector<double>> times(ways.size());
    for (int round = 0; round < ROUNDS; round++)
        for (size_t way = 0; way < ways.size(); way++) {
            auto start = Clock::now();
            for (int i = 0; i < LAUNCHES; i++) ways[way].second();
            double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / LAUNCHES;
            CHECK(cudaStreamSynchronize(stream));
            if (round >= ROUNDS / 10) times[way].push_back(ns);
        }
    printf("| a launch | ns | more than the first |\n|---|---|---|\n");
    double first = 0;
    for (size_t way = 0; way < ways.size(); way++) {
        std::sort(times[way].begin(), times[way].end());
        double median = times[way][times[way].size() / 2];
        if (way == 0) first = median;
        printf("| %s | %.0f | %.0f |\n", ways[way].first, median, median - first);
    }
    fflush(stdout);
    _Exit(0);
}
