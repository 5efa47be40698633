/* Functions that the simulator's libcuda.so.1 has besides CUDA's. Programs find them with dlsym; they need no header of CUDA. */
#ifndef CUDA_UM_SIM_H
#define CUDA_UM_SIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the misuse of CUDA that the simulator has found into `text`, one per line, and ends it with a NUL; `bytes` is the room. Returns
   the number of misuses. */
size_t cudaUmSimMisuse(char *text, size_t bytes);

/* The same for memory and handles that were created and are not released. */
size_t cudaUmSimLeaks(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
