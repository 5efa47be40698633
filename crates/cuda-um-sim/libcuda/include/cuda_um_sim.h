/* Functions that the simulator's libcuda.so.1 has besides CUDA's. Programs find them with dlsym; they need no header of CUDA. */
#ifndef CUDA_UM_SIM_H
#define CUDA_UM_SIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One launch of a kernel, for its CPU reference. It is valid until the reference returns. */
typedef struct cudaUmSimLaunch cudaUmSimLaunch;
struct cudaUmSimLaunch {
    const char *kernel;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    /* The number of parameters that the PTX declares. */
    unsigned parameters;
    /* Copies parameter `index`, which has `bytes` bytes, to `to`. Returns 0, or 1 if it has another size or does not exist. */
    int (*value)(const cudaUmSimLaunch *launch, unsigned index, void *to, size_t bytes);
    /* The first `bytes` bytes behind the pointer parameter `index`, as the kernel reads them. NULL if a kernel must not read them: the
       launch fails then, whatever the reference returns. */
    const void *(*read)(const cudaUmSimLaunch *launch, unsigned index, size_t bytes);
    /* The same, to read and write. Ranges of one launch must not overlap if one of them is written. */
    void *(*write)(const cudaUmSimLaunch *launch, unsigned index, size_t bytes);
    /* For the simulator. */
    void *context;
};

/* Does on the CPU what the kernel does. Returns 0; any other number is a fault of the kernel. It must not call CUDA. */
typedef int (*cudaUmSimKernel)(const cudaUmSimLaunch *launch);

/* Registers the CPU reference of all kernels of this name. Returns 0, or 1 if the name is null, no UTF-8, or has another reference. */
int cudaUmSimRegisterKernel(const char *name, cudaUmSimKernel reference);

/* The type of cudaUmSimRegisterKernel. */
typedef int (*cudaUmSimRegister)(const char *name, cudaUmSimKernel reference);

/* A library that the variable CUDA_UM_SIM_KERNELS names exports this function. The simulator calls it once, when it starts; it must not
   call CUDA. It returns 0 if all kernels are registered. */
int cudaUmSimKernels(cudaUmSimRegister register_kernel);

/* Writes the misuse of CUDA that the simulator has found into `text`, one per line, and ends it with a NUL; `bytes` is the room. Returns
   the number of misuses. */
size_t cudaUmSimMisuse(char *text, size_t bytes);

/* The same for memory and handles that were created and are not released. */
size_t cudaUmSimLeaks(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
