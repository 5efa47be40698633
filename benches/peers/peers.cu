// What two devices do together, by CUDA alone: copies, migrations of managed memory, duplicates, relayed copies.
//   nvcc -O2 -arch=sm_90 -o peers peers.cu && ./peers
// Needs two GPUs with peer access and CUDA 13.0 or newer; at most 512 MiB of managed memory. Prints medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <functional>
#include <vector>
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("ERR line %d %s: %s\n", __LINE__, #x, cudaGetErrorName(e_)); cudaGetLastError(); } } while (0)
using F = std::function<void()>;
static double now() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
// The median of n rounds: prepare, wait for both devices, run, wait for both devices.
static double med(int n, F prepare, F run) {
    std::vector<double> times;
    for (int i = 0; i < n; i++) {
        prepare();
        for (int d = 0; d < 2; d++) { cudaSetDevice(d); CK(cudaDeviceSynchronize()); }
        double start = now();
        run();
        for (int d = 0; d < 2; d++) { cudaSetDevice(d); CK(cudaDeviceSynchronize()); }
        times.push_back(now() - start);
    }
    std::sort(times.begin(), times.end());
    return times[n / 2];
}
static void row(const char *name, size_t bytes, double us) { printf("%-58s %7.1f MiB %10.1f us %8.1f GB/s\n", name, bytes / 1048576.0, us, bytes / us / 1e3); fflush(stdout); }
__global__ void rd(const float4 *p, size_t n, float *o) {
    float s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) { float4 v = p[i]; s += v.x + v.y + v.z + v.w; }
    if (s == 12345.f) *o = s;
}
__global__ void cp(const float4 *p, float4 *q, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) q[i] = p[i];
}
static cudaMemLocation dev(int d) { cudaMemLocation l; memset(&l, 0, sizeof l); l.type = cudaMemLocationTypeDevice; l.id = d; return l; }
int main() {
    cudaStream_t s0, s1, S[2][8];
    for (int d = 0; d < 2; d++) { cudaSetDevice(d); cudaFree(0); for (int i = 0; i < 8; i++) CK(cudaStreamCreateWithFlags(&S[d][i], cudaStreamNonBlocking)); }
    s0 = S[0][0]; s1 = S[1][0];
    size_t N = 256 << 20;
    char *a, *b, *t0, *t1, *h, *m, *m2;
    float *o0, *o1;
    cudaSetDevice(0); CK(cudaMalloc(&a, N)); CK(cudaMalloc(&t0, N)); CK(cudaMalloc(&o0, 4));
    cudaSetDevice(1); CK(cudaMalloc(&b, N)); CK(cudaMalloc(&t1, N)); CK(cudaMalloc(&o1, 4));
    CK(cudaHostAlloc(&h, N, cudaHostAllocPortable)); memset(h, 1, N);
    size_t sizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20};
    for (size_t n : sizes) row("peer copy without access (cudaMemcpyPeerAsync)", n, med(9, [] {}, [&] { cudaSetDevice(1); CK(cudaMemcpyPeerAsync(b, 1, a, 0, n, s1)); }));
    { double t = now(); cudaSetDevice(0); CK(cudaDeviceEnablePeerAccess(1, 0)); cudaSetDevice(1); CK(cudaDeviceEnablePeerAccess(0, 0)); printf("enable both %.0f us\n", now() - t); }
    for (size_t n : sizes) {
        row("peer copy, access, stream of target", n, med(9, [] {}, [&] { cudaSetDevice(1); CK(cudaMemcpyPeerAsync(b, 1, a, 0, n, s1)); }));
        row("peer copy, access, stream of source", n, med(9, [] {}, [&] { cudaSetDevice(0); CK(cudaMemcpyPeerAsync(b, 1, a, 0, n, s0)); }));
    }
    cudaSetDevice(0); CK(cudaMallocManaged(&m, N)); CK(cudaMallocManaged(&m2, N));
    auto on = [&](int d, size_t n) {
        cudaSetDevice(d); CK(cudaMemPrefetchAsync(m, n, dev(d), 0, S[d][0])); CK(cudaStreamSynchronize(S[d][0]));
        if (d == 0) rd<<<1056, 256, 0, s0>>>((float4 *)m, n / 16, o0); else rd<<<1056, 256, 0, s1>>>((float4 *)m, n / 16, o1);
    };
    memset(m, 1, N);
    for (size_t n : {(size_t)1 << 20, (size_t)16 << 20, (size_t)64 << 20, (size_t)256 << 20}) {
        F home = [&] { on(0, n); };
        void *ps[1] = {m}; size_t ss[1] = {n}, ix[1] = {0}; cudaMemLocation ls[1] = {dev(1)};
        row("managed prefetch 0->1, stream of 1", n, med(7, home, [&] { cudaSetDevice(1); CK(cudaMemPrefetchAsync(m, n, dev(1), 0, s1)); }));
        row("managed on 0 -> device memory of 1, cudaMemcpyAsync on 0", n, med(7, home, [&] { cudaSetDevice(0); CK(cudaMemcpyAsync(b, m, n, cudaMemcpyDefault, s0)); }));
        row("managed on 0 -> managed on 1, cudaMemcpyAsync on 1", n, med(7, [&] { home(); cudaSetDevice(1); CK(cudaMemPrefetchAsync(m2, n, dev(1), 0, s1)); }, [&] { cudaSetDevice(1); CK(cudaMemcpyAsync(m2, m, n, cudaMemcpyDefault, s1)); }));
        row("discard-and-prefetch to 1, from 0", n, med(7, home, [&] { cudaSetDevice(1); CK(cudaMemDiscardAndPrefetchBatchAsync(ps, ss, 1, ls, ix, 1, 0, s1)); }));
        row("discard-and-prefetch to 1, already on 1", n, med(7, [&] { on(1, n); }, [&] { cudaSetDevice(1); CK(cudaMemDiscardAndPrefetchBatchAsync(ps, ss, 1, ls, ix, 1, 0, s1)); }));
        row("device memory of 1 -> managed on 1", n, med(7, [&] { on(1, n); }, [&] { cudaSetDevice(1); CK(cudaMemcpyAsync(m, b, n, cudaMemcpyDefault, s1)); }));
        row("kernel on 1 faults managed of 0", n, med(5, home, [&] { cudaSetDevice(1); rd<<<1056, 256, 0, s1>>>((float4 *)m, n / 16, o1); }));
        CK(cudaMemAdvise(m, n, cudaMemAdviseSetPreferredLocation, dev(0))); CK(cudaMemAdvise(m, n, cudaMemAdviseSetAccessedBy, dev(1)));
        row("kernel on 1 copies managed of 0 (mapped) to device memory", n, med(5, home, [&] { cudaSetDevice(1); cp<<<1056, 256, 0, s1>>>((float4 *)m, (float4 *)b, n / 16); }));
        CK(cudaMemAdvise(m, n, cudaMemAdviseUnsetAccessedBy, dev(1))); CK(cudaMemAdvise(m, n, cudaMemAdviseUnsetPreferredLocation, dev(0)));
        F mostly = [&] { CK(cudaMemAdvise(m, n, cudaMemAdviseUnsetReadMostly, dev(0))); memset(m, 1, n); on(0, n); CK(cudaStreamSynchronize(s0)); CK(cudaMemAdvise(m, n, cudaMemAdviseSetReadMostly, dev(0))); };
        row("read-mostly duplicate by faults of 1 (page on 0)", n, med(5, mostly, [&] { cudaSetDevice(1); rd<<<1056, 256, 0, s1>>>((float4 *)m, n / 16, o1); }));
        row("read-mostly duplicate by prefetch to 1 (page on 0)", n, med(5, mostly, [&] { cudaSetDevice(1); CK(cudaMemPrefetchAsync(m, n, dev(1), 0, s1)); }));
        CK(cudaMemAdvise(m, n, cudaMemAdviseUnsetReadMostly, dev(0)));
    }
    for (size_t n : {(size_t)4 << 20, (size_t)16 << 20, (size_t)64 << 20, (size_t)256 << 20}) {
        row("upload pinned -> 0", n, med(9, [] {}, [&] { cudaSetDevice(0); CK(cudaMemcpyAsync(a, h, n, cudaMemcpyDefault, s0)); }));
        row("upload pinned -> 0 and 1, half each", n, med(9, [] {}, [&] { cudaSetDevice(0); CK(cudaMemcpyAsync(a, h, n / 2, cudaMemcpyDefault, s0)); cudaSetDevice(1); CK(cudaMemcpyAsync(b, h + n / 2, n / 2, cudaMemcpyDefault, s1)); }));
        for (size_t c : {(size_t)2 << 20, (size_t)8 << 20}) {
            if (c > n / 2) continue;
            char name[90]; sprintf(name, "upload, half through 1, pieces of %zu MiB", c >> 20);
            cudaEvent_t ev[128]; cudaSetDevice(1); int k = 0;
            for (size_t q = 0; q < n / 2; q += c) CK(cudaEventCreateWithFlags(&ev[k++], cudaEventDisableTiming));
            row(name, n, med(9, [] {}, [&] {
                cudaSetDevice(0); CK(cudaMemcpyAsync(a, h, n / 2, cudaMemcpyDefault, s0)); cudaSetDevice(1); int i = 0;
                for (size_t q = 0; q < n / 2; q += c, i++) { CK(cudaMemcpyAsync(t1 + q, h + n / 2 + q, c, cudaMemcpyDefault, s1)); CK(cudaEventRecord(ev[i], s1)); CK(cudaStreamWaitEvent(S[1][1], ev[i], 0)); CK(cudaMemcpyPeerAsync(a + n / 2 + q, 0, t1 + q, 1, c, S[1][1])); }
            }));
            for (int i = 0; i < k; i++) cudaEventDestroy(ev[i]);
        }
    }
}
