// What transfers to the device cost a pass of steps that run at the same time, with CUDA alone.
//
//   nvcc -O3 -arch=native -o steps steps.cu && ./steps            # 1.2 GiB of device memory, 1.2 GiB of pinned memory
//
// A pass has two launches or more for each step, on buffers that stay. Behind some steps, a copy from pinned memory overwrites a buffer that the
// pass no longer uses, on a stream of its own. The lines add one thing after another: the copies, the events behind the steps, the waits.
#include "check.h"
#include <algorithm>
#include <vector>

__global__ void saxpy(float a, const float4 *x, float4 *y, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        float4 u = x[i], v = y[i];
        v.x += a * u.x, v.y += a * u.y, v.z += a * u.z, v.w += a * u.w;
        y[i] = v;
    }
}

struct Shape {
    size_t bytes;
    int layers, launches, transfers;
};

static cudaStream_t compute, copies;
static cudaEvent_t ended, came;

enum Parts { COPIES = 1, ENDED = 2, LATE = 4, WAIT = 8 };

static void pass(const Shape &shape, int parts, const std::vector<float *> &slots, float *home, float *idle, float *sum) {
    int steps = 2 * shape.layers, done = 0, blocks = 1056;
    size_t n = shape.bytes / sizeof(float4);
    for (int step = 0; step < steps; step++) {
        if (done * steps < step * shape.transfers) {
            done++;
            // The step before was the last one that needs the slot.
            if (parts & ENDED) CHECK(cudaEventRecord(ended, compute));
            if (parts & LATE) CHECK(cudaStreamWaitEvent(copies, ended));
            // The buffer that came since the last turn is used from now on.
            if (parts & WAIT) CHECK(cudaStreamWaitEvent(compute, came));
            if (parts & COPIES) CHECK(cudaMemcpyAsync(slots[shape.layers], home, shape.bytes, cudaMemcpyHostToDevice, copies));
            if (parts & WAIT) CHECK(cudaEventRecord(came, copies));
        }
        const float *weights = slots[step < shape.layers ? step : steps - 1 - step];
        saxpy<<<blocks, 256, 0, compute>>>(1, (const float4 *)weights, (float4 *)sum, n);
        for (int i = 1; i < shape.launches; i++) saxpy<<<blocks, 256, 0, compute>>>(0, (const float4 *)idle, (float4 *)sum, n);
    }
}

int main() {
    CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&came, cudaEventDisableTiming));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    const Shape shapes[] = {{18874368, 50, 4, 14}, {18874368, 50, 21, 14}, {23068672, 40, 4, 20}, {33554432, 30, 15, 30}};
    const struct { const char *name; int parts; } lines[] = {
        {"steps alone", 0}, {"events behind steps", ENDED}, {"events, waits for nothing", ENDED | WAIT},
        {"copies at any time", COPIES}, {"copies and events", COPIES | ENDED},
        {"copies behind steps", COPIES | ENDED | LATE}, {"steps behind copies, too", COPIES | ENDED | LATE | WAIT}};
    for (const Shape &shape : shapes) {
        std::vector<float *> slots(shape.layers + 1);
        for (float *&slot : slots) {
            CHECK(cudaMalloc(&slot, shape.bytes));
            CHECK(cudaMemset(slot, 0, shape.bytes));
        }
        float *home, *idle, *sum;
        CHECK(cudaMallocHost(&home, shape.bytes));
        CHECK(cudaMalloc(&idle, shape.bytes));
        CHECK(cudaMalloc(&sum, shape.bytes));
        CHECK(cudaMemset(idle, 0, shape.bytes));
        CHECK(cudaMemset(sum, 0, shape.bytes));
        printf("%d steps of %d launches over %zu MiB, %d copies of them\n", 2 * shape.layers, shape.launches, shape.bytes >> 20, shape.transfers);
        std::vector<float> times[7];
        for (int round = 0; round < 11; round++)
            for (int line = 0; line < 7; line++) {
                CHECK(cudaDeviceSynchronize());
                // Two passes in a row are timed: the copies of the first one may run into the second.
                pass(shape, lines[line].parts, slots, home, idle, sum);
                CHECK(cudaEventRecord(begin, compute));
                pass(shape, lines[line].parts, slots, home, idle, sum);
                pass(shape, lines[line].parts, slots, home, idle, sum);
                CHECK(cudaEventRecord(end, compute));
                CHECK(cudaDeviceSynchronize());
                float ms;
                CHECK(cudaEventElapsedTime(&ms, begin, end));
                if (round > 1) times[line].push_back(ms / 2);
            }
        float alone = 0;
        for (int line = 0; line < 7; line++) {
            std::sort(times[line].begin(), times[line].end());
            float median = times[line][times[line].size() / 2];
            if (!line) alone = median;
            printf("  %-26s %8.3f ms  %6.3f  %6.1f us a copy\n", lines[line].name, median, median / alone, (median - alone) * 1e3 / shape.transfers);
        }
        for (float *slot : slots) CHECK(cudaFree(slot));
        CHECK(cudaFreeHost(home));
        CHECK(cudaFree(idle));
        CHECK(cudaFree(sum));
    }
}
