// Threads that make and drop memory pools of the driver, without the library: what cudaMemPoolDestroy does beside a synchronization.
//   nvcc -std=c++17 -O2 -o pool_destroy pool_destroy.cu && ./pool_destroy destroy|keep PROCESSES
// Each process has 4 threads. A thread makes a pool, allocates from it and frees on a stream that all threads share, and synchronizes
// that stream. Another thread destroys the pool when an event after the free is complete, or keeps it for the next round.
#include <cuda_runtime.h>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
const int THREADS = 4, ROUNDS = 80, AT_ONCE = 5, LIMIT_SECONDS = 20;
const size_t BYTES = 400000, SLAB = 4 << 20;
struct Dropped { cudaMemPool_t pool; cudaEvent_t freed; void *managed; };
static cudaStream_t stream;
static bool keep, ended;
static std::mutex lock;
static std::condition_variable changed;
static std::deque<Dropped> dropped;
static std::vector<cudaMemPool_t> spare;
#define OK(call) do { cudaError_t e = (call); if (e) { fprintf(stderr, #call ": %s\n", cudaGetErrorString(e)); _exit(3); } } while (0)

static cudaMemPool_t pool() {
    {
        std::lock_guard<std::mutex> held(lock);
        if (!spare.empty()) { auto pool = spare.back(); spare.pop_back(); return pool; }
    }
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool;
    OK(cudaMemPoolCreate(&pool, &props));
    unsigned long long threshold = ~0ull;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    return pool;
}

static void work() {
    OK(cudaSetDevice(0));
    cudaStream_t own;
    OK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    for (int round = 0; round < ROUNDS; round++) {
        Dropped it = {pool()};
        void *pooled;
        cudaEvent_t event;
        OK(cudaMallocFromPoolAsync(&pooled, BYTES, it.pool, stream));
        OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        OK(cudaEventRecord(event, stream));
        OK(cudaStreamWaitEvent(own, event, 0));
        OK(cudaMallocManaged(&it.managed, SLAB));
        OK(cudaMemPrefetchAsync(it.managed, SLAB, {cudaMemLocationTypeDevice, 0}, 0, stream));
        OK(cudaStreamSynchronize(stream));
        OK(cudaMemsetAsync(pooled, 0, BYTES, own));
        OK(cudaMemsetAsync(it.managed, 0, SLAB, own));
        OK(cudaEventRecord(event, own));
        OK(cudaStreamWaitEvent(stream, event, 0));
        OK(cudaFreeAsync(pooled, stream));
        OK(cudaEventDestroy(event));
        OK(cudaEventCreateWithFlags(&it.freed, cudaEventDisableTiming));
        OK(cudaEventRecord(it.freed, stream));
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [] { return dropped.size() < 12; });
        dropped.push_back(it);
        changed.notify_all();
    }
}

static void reclaim() {
    for (;;) {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [] { return ended || !dropped.empty(); });
        if (dropped.empty()) return;
        Dropped it = dropped.front();
        dropped.pop_front();
        changed.notify_all();
        held.unlock();
        cudaError_t code;
        while ((code = cudaEventQuery(it.freed)) == cudaErrorNotReady) usleep(20);
        OK(code);
        OK(cudaEventDestroy(it.freed));
        OK(cudaFree(it.managed));
        OK(cudaMemPoolTrimTo(it.pool, 0));
        held.lock();
        if (keep) spare.push_back(it.pool);
        held.unlock();
        if (!keep) OK(cudaMemPoolDestroy(it.pool));
    }
}

static void child() {
    alarm(LIMIT_SECONDS);
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::thread reclaimer(reclaim);
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) threads.emplace_back(work);
    for (auto &thread : threads) thread.join();
    { std::lock_guard<std::mutex> held(lock); ended = true; }
    changed.notify_all();
    reclaimer.join();
    _exit(0);
}

int main(int argc, char **argv) {
    keep = argc > 1 && !strcmp(argv[1], "keep");
    int processes = argc > 2 ? atoi(argv[2]) : 50, started = 0, running = 0, good = 0, hung = 0, crashed = 0, failed = 0;
    while (started < processes || running) {
        if (started < processes && running < AT_ONCE) {
            started++, running++;
            if (fork() == 0) child();
            continue;
        }
        int status;
        wait(&status);
        running--;
        if (WIFSIGNALED(status)) (WTERMSIG(status) == SIGALRM ? hung : crashed)++;
        else (WEXITSTATUS(status) ? failed : good)++;
    }
    printf("%s: %d processes: %d end, %d crash, %d do not end within %d s, %d fail\n", keep ? "pools are kept" : "pools are destroyed",
           processes, good, crashed, hung, LIMIT_SECONDS, failed);
}
