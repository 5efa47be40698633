/* The allocator of cuda-um for C and C++: managed or device memory from a pool, in the order of the caller's streams.
 *
 * Link with -lcuda_um_c. All functions may be called by any thread. A function that fails says why in cuda_um_last_error. */
#ifndef CUDA_UM_H
#define CUDA_UM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An allocator over a pool of one device. */
typedef struct cuda_um_allocator cuda_um_allocator;

/* Kinds of memory. */
#define CUDA_UM_UNIFIED 0 /* managed: the CPU and the GPU use it at one address */
#define CUDA_UM_DEVICE 1

/* Options, to be added. */
#define CUDA_UM_OVERSUBSCRIPTION 1 /* managed memory may be more than the device has free: can hang a GPU for all of its programs */
#define CUDA_UM_NO_PREFETCH 2      /* new managed memory stays where it is, and its first kernel has page faults */

/* The memory of an allocator. */
typedef struct {
    size_t live_bytes;     /* what the program has */
    size_t peak_bytes;     /* the most that it had */
    size_t reserved_bytes; /* what the pool has from CUDA */
    size_t live_blocks;
} cuda_um_stats;

/* Makes an allocator. `name` is the memory's name in profiles, or NULL. NULL after an error.
 *
 * The first call of a process opens the CUDA runtime that CUDA_UM_RUNTIME selects: "cuda", "sim" (a simulator), or by default the GPU if there is one. */
cuda_um_allocator *cuda_um_allocator_create(int device, int kind, unsigned options, const char *name);

/* Frees an allocator, unless it is NULL. Memory that it gave stays valid until the process ends, and cannot be freed any more. */
void cuda_um_allocator_destroy(cuda_um_allocator *allocator);

/* Allocates memory with arbitrary contents, at a multiple of 256 bytes. NULL for 0 bytes, and after an error.
 *
 * `stream` is a cudaStream_t (or CUstream) of the device that lives, or 0, 1 or 2 for a default stream as in CUDA. Later work on it runs after all work of
 * the memory's former owners. Does not wait, except for that work if the stream is captured into a graph, or is 2. */
void *cuda_um_allocate(cuda_um_allocator *allocator, size_t bytes, void *stream);

/* Frees memory, unless `address` is NULL. Returns 0, or -1 after an error; then nothing is freed.
 *
 * All work that uses the memory is on `stream`, or ordered before work that is on it. The memory is used again after that work, on any stream. Does not
 * wait, except for the device if the stream is 2. */
int cuda_um_free(cuda_um_allocator *allocator, void *address, void *stream);

/* Writes the figures of the allocator. */
void cuda_um_allocator_stats(const cuda_um_allocator *allocator, cuda_um_stats *stats);

/* Returns the free memory of the pool to CUDA, and returns its bytes. */
size_t cuda_um_allocator_trim(cuda_um_allocator *allocator);

/* Why a function failed last on this thread, with its numbers; "" if none did. Valid until the thread calls a function that fails. */
const char *cuda_um_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
