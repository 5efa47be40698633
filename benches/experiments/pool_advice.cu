#include <cuda_runtime.h>
#include <cstdio>
int main() {
  cudaMemPoolProps p = {}; p.allocType = cudaMemAllocationTypeManaged; p.location.type = cudaMemLocationTypeDevice; p.location.id = 0;
  for (int kind = 0; kind < 3; kind++) {
    p.location.type = kind == 0 ? cudaMemLocationTypeDevice : kind == 1 ? cudaMemLocationTypeHost : cudaMemLocationTypeNone;
    cudaMemPool_t pool; cudaError_t e = cudaMemPoolCreate(&pool, &p);
    printf("pool with location kind %d: %s\n", kind, cudaGetErrorName(e)); cudaGetLastError();
    if (e) continue;
    unsigned long long t = ~0ull; cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &t);
    cudaStream_t s; cudaStreamCreate(&s);
    size_t n = 4 << 20; void *m; cudaMallocFromPoolAsync(&m, n, pool, s); cudaStreamSynchronize(s);
    for (int a = 1; a <= 6; a++) for (int d = 0; d < 2; d++) {
      cudaMemLocation l; l.type = d ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost; l.id = 0;
      cudaError_t c = cudaMemAdvise(m, n, (cudaMemoryAdvise)a, l);
      printf("  advice %d, %s: %s\n", a, d ? "device" : "host", cudaGetErrorName(c)); cudaGetLastError();
      for (int at = 1; at <= 4; at++) { int v = 77; cudaError_t q = cudaMemRangeGetAttribute(&v, 4, (cudaMemRangeAttribute)at, m, n); printf("    attribute %d: %d %s\n", at, v, cudaGetErrorName(q)); cudaGetLastError(); }
    }
    cudaMemLocation l; l.type = cudaMemLocationTypeDevice; l.id = 0;
    printf("  prefetch: %s\n", cudaGetErrorName(cudaMemPrefetchAsync(m, n, l, 0, s))); cudaGetLastError();
    void *ptrs[1] = {m}; size_t sizes[1] = {n};
    printf("  discard: %s\n", cudaGetErrorName(cudaMemDiscardBatchAsync(ptrs, sizes, 1, 0, s))); cudaGetLastError();
    cudaFreeAsync(m, s); cudaStreamSynchronize(s); cudaMemPoolDestroy(pool);
  }
}
