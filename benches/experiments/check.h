// What the experiments share.
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

// Ends the program if a call of CUDA fails.
#define CHECK(call)                                                                                  \
    do {                                                                                             \
        cudaError_t error = (call);                                                                  \
        if (error != cudaSuccess) {                                                                  \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error));        \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

using Clock = std::chrono::steady_clock;
