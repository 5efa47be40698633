// Opens the first GPU, and reports errors as exceptions that name the call.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

inline void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}
#define CHECK(call) check(call, #call)

// Without any driver, CUDA reports that the driver is too old.
inline void open_gpu() {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaErrorInsufficientDriver) {
    throw std::runtime_error("no NVIDIA driver, or one older than CUDA " +
                             std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10));
  }
  check(code, "cudaGetDeviceCount");
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
}
