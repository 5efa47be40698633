// Compares ways to stage a copy of pageable memory: number of threads, size of pieces, and stores through the CPU's caches or
// past them. The library's parameters (crates/cuda-um/src/buffer/transfer) come from this output. It needs nvcc, a GPU, and a CPU with
// AVX-512:
//
//     nvcc -O3 -std=c++17 staging.cu -o staging && ./staging > staging.md
//
// `./staging 4 256` measures these sizes, in MiB, alone.
//
// 256 MiB of managed memory, 768 MiB of pageable memory, 144 MiB pinned. About three minutes.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <immintrin.h>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include "check.h"

const size_t KIB = 1 << 10, MIB = 1 << 20, RING = 144 * MIB, LARGEST = 256 * MIB, PAGEABLE = 3 * LARGEST;
const int MOST_CHUNKS = 3, MOST_THREADS = 12;

static double us_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

static void through_caches(char *to, const char *from, size_t bytes) { memcpy(to, from, bytes); }

__attribute__((target("avx512f"))) static void past_caches(char *to, const char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 256) {
        __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 64);
        __m512i c = _mm512_loadu_si512(from + i + 128), d = _mm512_loadu_si512(from + i + 192);
        _mm512_stream_si512((__m512i *)(to + i), a);
        _mm512_stream_si512((__m512i *)(to + i + 64), b);
        _mm512_stream_si512((__m512i *)(to + i + 128), c);
        _mm512_stream_si512((__m512i *)(to + i + 192), d);
    }
    _mm_sfence();
}

// Threads that sleep between two copies.
struct Threads {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void(int)> work;
    std::atomic<int> turn{0}, left{0}, wanted{0};
    Threads() {
        for (int index = 1; index < MOST_THREADS; index++)
            std::thread([this, index] {
                for (int seen = 0;;) {
                    {
                        std::unique_lock<std::mutex> lock(mutex);
                        changed.wait(lock, [&] { return turn != seen; });
                    }
                    seen = turn;
                    if (index < wanted) work(index);
                    left--;
                }
            }).detach();
    }
    void run(int count, std::function<void(int)> what) {
        if (count == 1) return what(0);
        {
            std::lock_guard<std::mutex> lock(mutex);
            work = what, wanted = count, left = MOST_THREADS - 1, turn++;
        }
        changed.notify_all();
        what(0);
        while (left > 0) _mm_pause();
    }
};

struct Machine {
    Threads threads;
    cudaStream_t stream;
    cudaEvent_t events[MOST_THREADS * MOST_CHUNKS];
    char *ring, *host, *device;
    size_t at = 0;
    // Memory that is in no cache.
    char *cold(size_t bytes) {
        if (at + bytes > PAGEABLE) at = 0;
        at += bytes;
        return host + at - bytes;
    }
};

typedef void (*Copy)(char *, const char *, size_t);

static double staged(Machine &m, char *device, bool up, size_t bytes, int threads, int chunks, size_t piece, Copy copy) {
    char *host = m.cold(bytes);
    std::atomic<size_t> next{0};
    auto start = Clock::now();
    m.threads.run(threads, [&](int thread) {
        size_t of[MOST_CHUNKS];
        int enqueued = 0, emptied = 0;
        auto wait = [&](int turn) {
            while (cudaEventQuery(m.events[thread * chunks + turn % chunks]) == cudaErrorNotReady) _mm_pause();
        };
        for (;;) {
            size_t begin = enqueued - emptied < chunks ? piece * next++ : bytes;
            int slot = thread * chunks + enqueued % chunks;
            if (begin < bytes) {
                char *chunk = m.ring + slot * piece;
                if (up && enqueued >= chunks) wait(enqueued);
                if (up) copy(chunk, host + begin, piece);
                if (up) CHECK(cudaMemcpyAsync(device + begin, chunk, piece, cudaMemcpyDefault, m.stream));
                else CHECK(cudaMemcpyAsync(chunk, device + begin, piece, cudaMemcpyDefault, m.stream));
                CHECK(cudaEventRecord(m.events[slot], m.stream));
                of[enqueued++ % chunks] = begin;
                if (up) emptied = enqueued;
                if (up || enqueued - emptied < chunks) continue;
            }
            if (emptied == enqueued) return;
            wait(emptied);
            copy(host + of[emptied % chunks], m.ring + (thread * chunks + emptied % chunks) * piece, piece);
            emptied++;
        }
    });
    CHECK(cudaStreamSynchronize(m.stream));
    return us_since(start);
}

static double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

int main(int count, char **names) {
    // The sizes in MiB; all of them without arguments.
    std::vector<size_t> sizes = {MIB, 4 * MIB, 16 * MIB, 64 * MIB, LARGEST};
    if (count > 1) sizes.clear();
    for (int i = 1; i < count; i++) sizes.push_back(std::min<size_t>(strtoull(names[i], nullptr, 10) * MIB, LARGEST));
    static Machine m;
    CHECK(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking));
    for (auto &event : m.events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaHostAlloc((void **)&m.ring, RING, 0));
    CHECK(cudaMalloc((void **)&m.device, LARGEST));
    char *managed;
    CHECK(cudaMallocManaged((void **)&managed, LARGEST));
    CHECK(cudaMemset(managed, 3, LARGEST));
    m.host = (char *)aligned_alloc(4096, PAGEABLE);
    for (size_t i = 0; i < PAGEABLE; i += 4) *(unsigned *)(m.host + i) = (unsigned)(i * 2654435761u);

    printf("Medians of the fastest three settings: threads × pieces of each × size. Pinned: one cudaMemcpyAsync from pinned memory.\n\n");
    printf("| bytes | what | pinned | through the caches | past the caches |\n|---|---|---|---|---|\n");
    struct { const char *name; char *device; bool up; } ways[] = {
        {"to managed", managed, true}, {"to cudaMalloc", m.device, true}, {"from managed", managed, false}, {"from cudaMalloc", m.device, false}};
    for (size_t bytes : sizes)
        for (auto way : ways) {
            int rounds = bytes >= 64 * MIB ? 5 : 11;
            size_t pinned_bytes = std::min(bytes, 64 * MIB);
            std::vector<double> pinned;
            for (int round = 0; round < rounds; round++) {
                auto start = Clock::now();
                for (size_t done = 0; done < bytes; done += pinned_bytes)
                    CHECK(cudaMemcpyAsync(way.up ? way.device + done : m.ring, way.up ? m.ring : way.device + done, pinned_bytes,
                                          cudaMemcpyDefault, m.stream));
                CHECK(cudaStreamSynchronize(m.stream));
                pinned.push_back(us_since(start));
            }
            printf("| %zu MiB | %s | %.0f us |", bytes / MIB, way.name, median(pinned));
            for (Copy copy : {through_caches, past_caches}) {
                std::vector<std::pair<double, std::string>> found;
                for (int threads : {1, 2, 4, 6, 8, 12})
                    for (int chunks : {2, 3})
                        for (size_t piece = 256 * KIB; piece <= 4 * MIB; piece *= 2) {
                            if (piece * threads > bytes || (chunks > 2 && piece * threads * chunks > bytes)) continue;
                            if (bytes >= 64 * MIB && (piece < MIB || threads < 4)) continue;
                            std::vector<double> times;
                            for (int round = 0; round < rounds; round++)
                                times.push_back(staged(m, way.device, way.up, bytes, threads, chunks, piece, copy));
                            char setting[64];
                            snprintf(setting, sizeof setting, "%d × %d × %zu KiB", threads, chunks, piece / KIB);
                            found.push_back({median(times), setting});
                        }
                std::sort(found.begin(), found.end());
                for (size_t i = 0; i < 3 && i < found.size(); i++)
                    printf("%s %.0f us (%s)", i ? "," : "", found[i].first, found[i].second.c_str());
                printf(" |");
            }
            printf("\n");
            fflush(stdout);
        }
    _Exit(0);
}
