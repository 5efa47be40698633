// What other processes that hold the GPU cost a small copy. It needs nvcc and a GPU:
//
//     nvcc -O3 -std=c++17 contexts.cu -o contexts && ./contexts > contexts.md
//
// Up to five processes hold a context. They are idle, or each works for a moment before each series of copies, as the contenders of a
// measurement take turns. A few seconds.
#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
#include <vector>
#include <atomic>
#include "check.h"

const int PEERS = 5, SERIES = 12, ROUNDS = 60;
const size_t BYTES = 4096;

struct Shared {
    std::atomic<int> turn[PEERS], ready;
};

struct Copies {
    cudaStream_t stream;
    char *device, *managed, *pageable, *pinned;
    Copies() {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaMalloc((void **)&device, BYTES));
        CHECK(cudaMallocManaged((void **)&managed, BYTES));
        CHECK(cudaMemset(managed, 0, BYTES));
        CHECK(cudaHostAlloc((void **)&pinned, BYTES, 0));
        pageable = (char *)calloc(1, BYTES);
        CHECK(cudaDeviceSynchronize());
    }
    void back(char *gpu) {
        CHECK(cudaMemcpyAsync(pinned, gpu, BYTES, cudaMemcpyDefault, stream));
        CHECK(cudaStreamSynchronize(stream));
        memcpy(pageable, pinned, BYTES);
    }
};

static void peer(Shared *shared, int index) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Copies copies;
    shared->ready++;
    for (;;) {
        while (shared->turn[index] == 0) usleep(20);
        for (int i = 0; i < SERIES; i++) copies.back(copies.managed);
        shared->turn[index] = 0;
    }
}

static double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

int main() {
    auto *shared = (Shared *)mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    std::vector<pid_t> children;
    // All forks come before CUDA: a child waits for the word to open its context.
    for (int i = 0; i < PEERS; i++) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (shared->turn[i] == 0) usleep(100);
            shared->turn[i] = 0;
            peer(shared, i);
        }
        children.push_back(child);
    }
    Copies copies;
    printf("4 KiB to the host through pinned memory, medians in us of the nth copy of a series.\n\n");
    printf("| other contexts | before the series | from | 1st | 2nd | 3rd | 6th | 12th |\n|---|---|---|---|---|---|---|---|\n");
    for (int peers : {0, 1, 2, 5}) {
        for (int i = shared->ready; i < peers; i++) {
            shared->turn[i] = 1;
            while (shared->ready <= i) usleep(1000);
        }
        for (const char *before : {"nothing", "1 ms of sleep", "5 ms of sleep", "20 ms of sleep", "they work"}) {
            if (peers == 0 && !strcmp(before, "they work")) continue;
            for (char *gpu : {copies.device, copies.managed}) {
                std::vector<double> times[SERIES];
                for (int round = 0; round < ROUNDS; round++) {
                    usleep(1000 * atoi(before)); // no number: 0
                    if (!strcmp(before, "they work"))
                        for (int i = 0; i < peers; i++) {
                            shared->turn[i] = 1;
                            while (shared->turn[i] == 1) {}
                        }
                    for (auto &of_nth : times) {
                        auto start = Clock::now();
                        copies.back(gpu);
                        of_nth.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
                    }
                }
                printf("| %d | %s | %s |", peers, before, gpu == copies.device ? "device" : "managed");
                for (int nth : {0, 1, 2, 5, 11}) printf(" %.1f |", median(times[nth]));
                printf("\n");
                fflush(stdout);
            }
        }
    }
    for (pid_t child : children) kill(child, SIGKILL);
    _Exit(0);
}
