/* Uses the allocator beside CUDA's runtime, which is the simulator's: `../check` compiles it with the header alone. */
#include <cuda_um.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of CUDA's runtime. */
typedef struct CUstream_st *cudaStream_t;
int cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
int cudaStreamSynchronize(cudaStream_t stream);
int cudaStreamDestroy(cudaStream_t stream);
int cudaMemsetAsync(void *address, int value, size_t bytes, cudaStream_t stream);

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, cuda_um_last_error());                \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static cuda_um_allocator *allocator;

/* Allocates on one stream, and frees on another after a fence of the framework: here, a wait. */
static void *worker(void *unused) {
    cudaStream_t first, second;
    CHECK(cudaStreamCreateWithFlags(&first, 1) == 0 && cudaStreamCreateWithFlags(&second, 1) == 0);
    for (int i = 0; i < 200; i++) {
        size_t bytes = 1000 + 37 * (size_t)i;
        unsigned char *memory = cuda_um_allocate(allocator, bytes, first);
        CHECK(memory && (uintptr_t)memory % 256 == 0);
        CHECK(cudaMemsetAsync(memory, i, bytes, first) == 0 && cudaStreamSynchronize(first) == 0);
        CHECK(memory[0] == (unsigned char)i && memory[bytes - 1] == (unsigned char)i);
        CHECK(cuda_um_free(allocator, memory, second) == 0);
    }
    CHECK(cudaStreamDestroy(first) == 0 && cudaStreamDestroy(second) == 0);
    return unused;
}

int main(void) {
    CHECK(strcmp(cuda_um_last_error(), "") == 0);
    CHECK(!cuda_um_allocator_create(99, CUDA_UM_UNIFIED, 0, NULL) && strstr(cuda_um_last_error(), "99"));
    CHECK(!cuda_um_allocator_create(0, 7, 0, NULL) && strstr(cuda_um_last_error(), "CUDA_UM_DEVICE"));
    CHECK(!cuda_um_allocator_create(0, CUDA_UM_DEVICE, 64, NULL) && strstr(cuda_um_last_error(), "64"));
    allocator = cuda_um_allocator_create(0, CUDA_UM_UNIFIED, CUDA_UM_NO_PREFETCH, "framework");
    CHECK(allocator);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
    for (int i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    cuda_um_stats stats;
    cuda_um_allocator_stats(allocator, &stats);
    CHECK(stats.live_bytes == 0 && stats.live_blocks == 0 && stats.peak_bytes >= 1000);
    void *memory = cuda_um_allocate(allocator, 1 << 20, NULL);
    cuda_um_allocator_stats(allocator, &stats);
    CHECK(memory && stats.live_blocks == 1 && stats.live_bytes >= 1 << 20);
    CHECK(cuda_um_free(allocator, (char *)memory + 256, NULL) == -1 && strstr(cuda_um_last_error(), "address"));
    CHECK(cuda_um_free(allocator, memory, NULL) == 0 && cuda_um_free(allocator, NULL, NULL) == 0);
    CHECK(cuda_um_free(allocator, memory, NULL) == -1);
    CHECK(cuda_um_allocator_trim(allocator) > 0);
    CHECK(cuda_um_allocate(allocator, 0, NULL) == NULL);
    CHECK(cuda_um_allocate(allocator, (size_t)1 << 50, NULL) == NULL && strstr(cuda_um_last_error(), "memory"));
    cuda_um_allocator_destroy(allocator);
    cuda_um_allocator *other = cuda_um_allocator_create(0, CUDA_UM_DEVICE, 0, NULL);
    memory = cuda_um_allocate(other, 1 << 20, NULL);
    CHECK(memory);
    cuda_um_allocator_destroy(other);
    cuda_um_allocator_destroy(NULL);
    /* Memory that was given stays. */
    CHECK(cudaMemsetAsync(memory, 1, 1 << 20, NULL) == 0 && cudaStreamSynchronize(NULL) == 0);
    puts("complete");
    return 0;
}
