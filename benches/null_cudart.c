// A CUDA runtime and driver whose functions return at once and do nothing: what the host needs for a call of the library then is the
// library's own time, and `valgrind --tool=callgrind` counts its instructions. It needs no GPU. No contents are right with it, except those of
// a synchronous copy.
//
//     cc -O2 -shared -fPIC null_cudart.c -o /tmp/libcudart.so.13 -ldl
//     CUDA_UM_CUDART=/tmp/libcudart.so.13 cargo run --release -p um-residency --example host_time
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING(name) int name(void) { return 0; }
#define VERSION 13000
#define PAGES (2 << 20)

static __thread int current;

// All kinds of memory are memory of the host, at addresses as CUDA's.
static int allocate(void **at, size_t bytes) {
    *at = aligned_alloc(PAGES, (bytes + PAGES - 1) / PAGES * PAGES);
    return *at ? 0 : 2;
}

static int handle(void **made) {
    *made = malloc(8);
    return *made ? 0 : 2;
}

static int release(void *at) {
    free(at);
    return 0;
}

static int number(int *to, int value) {
    *to = value;
    return 0;
}

int cudaMalloc(void **at, size_t bytes) { return allocate(at, bytes); }
int cudaMallocManaged(void **at, size_t bytes, unsigned flags) { return allocate(at, bytes); }
int cudaMallocFromPoolAsync(void **at, size_t bytes, void *pool, void *stream) { return allocate(at, bytes); }
int cudaHostAlloc(void **at, size_t bytes, unsigned flags) { return allocate(at, bytes); }
int cudaFree(void *at) { return release(at); }
int cudaFreeAsync(void *at, void *stream) { return release(at); }
int cudaFreeHost(void *at) { return release(at); }

int cudaEventCreateWithFlags(void **event, unsigned flags) { return handle(event); }
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { return handle(stream); }
int cudaMemPoolCreate(void **pool, const void *properties) { return handle(pool); }
int cuModuleGetFunction(void **function, void *module, const char *name) { return handle(function); }
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, void *options, void *values) { return handle(module); }

int cudaDriverGetVersion(int *version) { return number(version, VERSION); }
int cudaRuntimeGetVersion(int *version) { return number(version, VERSION); }
int cudaGetDeviceCount(int *count) { return number(count, 1); }
int cudaGetDevice(int *device) { return number(device, current); }
int cudaSetDevice(int device) { return number(&current, device); }

// cudaDeviceAttr of an H100; those that are not named are 1.
int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
        case 1: case 2: case 3: case 4: return number(value, 1024);
        case 5: case 6: case 7: return number(value, 65535);
        case 8: return number(value, 49152);
        case 10: return number(value, 32);
        case 12: return number(value, 65536);
        case 16: return number(value, 132);
        case 75: return number(value, 9);
        // Minor version; pageable memory, also by the host's page tables.
        case 76: case 88: case 100: return number(value, 0);
        default: return number(value, 1);
    }
}

int cuDeviceGetName(char *name, int size, int device) {
    strncpy(name, "null", size);
    return 0;
}

int cudaDeviceGetPCIBusId(char *id, int size, int device) {
    strncpy(id, "0000:01:00.0", size);
    return 0;
}

int cudaMemGetInfo(size_t *available, size_t *total) {
    *available = *total = (size_t)80 << 30;
    return 0;
}

int cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
    *device = host;
    return 0;
}

// No memory is registered by others.
int cudaHostGetFlags(unsigned *flags, void *at) { return 1; }

int cudaPointerGetAttributes(void *attributes, const void *at) {
    memset(attributes, 0, 24);
    return 0;
}

int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    memcpy(to, from, bytes);
    return 0;
}

const char *cudaGetErrorName(int code) { return "null"; }
const char *cudaGetErrorString(int code) { return "null"; }

// The driver's functions are in this file, too.
int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *found) {
    Dl_info here;
    dladdr((void *)&allocate, &here);
    void *self = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *function = dlsym(self, name);
    if (found) *found = *function ? 0 : 1;
    return 0;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    return 0;
}

NOTHING(cuDeviceGet) NOTHING(cuFuncGetAttribute) NOTHING(cuFuncSetAttribute) NOTHING(cuGetErrorName)
NOTHING(cuGetErrorString) NOTHING(cuMemsetD16Async) NOTHING(cuMemsetD32Async) NOTHING(cuMemsetD8Async)
NOTHING(cuModuleLoadData) NOTHING(cuModuleUnload) NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOTHING(cuPointerGetAttribute) NOTHING(cudaDeviceCanAccessPeer) NOTHING(cudaDeviceDisablePeerAccess)
NOTHING(cudaDeviceEnablePeerAccess) NOTHING(cudaDeviceGetDefaultMemPool) NOTHING(cudaDeviceGetMemPool)
NOTHING(cudaDeviceGetStreamPriorityRange) NOTHING(cudaDeviceSetMemPool) NOTHING(cudaDeviceSynchronize)
NOTHING(cudaEventDestroy) NOTHING(cudaEventElapsedTime) NOTHING(cudaEventQuery) NOTHING(cudaEventRecord)
NOTHING(cudaEventSynchronize) NOTHING(cudaGetLastError) NOTHING(cudaHostRegister) NOTHING(cudaHostUnregister)
NOTHING(cudaLaunchHostFunc) NOTHING(cudaMallocAsync) NOTHING(cudaMemAdvise) NOTHING(cudaMemAdvise_v2)
NOTHING(cudaMemDiscardAndPrefetchBatchAsync) NOTHING(cudaMemDiscardBatchAsync) NOTHING(cudaMemGetDefaultMemPool)
NOTHING(cudaMemGetLocationInfo) NOTHING(cudaMemGetMemPool) NOTHING(cudaMemPoolDestroy)
NOTHING(cudaMemPoolGetAttribute) NOTHING(cudaMemPoolSetAccess) NOTHING(cudaMemPoolSetAttribute)
NOTHING(cudaMemPoolTrimTo) NOTHING(cudaMemPrefetchAsync) NOTHING(cudaMemPrefetchAsync_v2)
NOTHING(cudaMemPrefetchBatchAsync) NOTHING(cudaMemRangeGetAttribute) NOTHING(cudaMemRangeGetAttributes)
NOTHING(cudaMemSetMemPool) NOTHING(cudaMemcpyAsync) NOTHING(cudaMemcpyBatchAsync) NOTHING(cudaMemcpyPeer)
NOTHING(cudaMemcpyPeerAsync) NOTHING(cudaMemset) NOTHING(cudaMemsetAsync) NOTHING(cudaPeekAtLastError)
NOTHING(cudaStreamAttachMemAsync) NOTHING(cudaStreamCreateWithPriority) NOTHING(cudaStreamDestroy)
NOTHING(cudaStreamGetDevice) NOTHING(cudaStreamQuery) NOTHING(cudaStreamSynchronize) NOTHING(cudaStreamWaitEvent)
