/* Prints the C compiler's values for NVIDIA's headers, one `name value` in each line. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, value) printf("%s %lld\n", name, (long long)(value))
#define CONSTANT(name) VALUE(#name, name)
#define SIZE(type) VALUE("sizeof " #type, sizeof(type))
#define STRUCT(type) VALUE("sizeof " #type, sizeof(struct type))
#define FIELD(type, field) VALUE(#type "." #field, offsetof(struct type, field))

int main(void) {
    STRUCT(cudaMemLocation);
    FIELD(cudaMemLocation, type);
    FIELD(cudaMemLocation, id);
    STRUCT(cudaMemAccessDesc);
    FIELD(cudaMemAccessDesc, location);
    FIELD(cudaMemAccessDesc, flags);
    STRUCT(cudaMemPoolProps);
    FIELD(cudaMemPoolProps, allocType);
    FIELD(cudaMemPoolProps, handleTypes);
    FIELD(cudaMemPoolProps, location);
    FIELD(cudaMemPoolProps, win32SecurityAttributes);
#if CUDART_VERSION >= 12060
    FIELD(cudaMemPoolProps, maxSize);
    FIELD(cudaMemPoolProps, usage);
#endif
    STRUCT(cudaPointerAttributes);
    FIELD(cudaPointerAttributes, type);
    FIELD(cudaPointerAttributes, device);
    FIELD(cudaPointerAttributes, devicePointer);
    FIELD(cudaPointerAttributes, hostPointer);
#if CUDART_VERSION >= 12080
    STRUCT(cudaMemcpyAttributes);
    FIELD(cudaMemcpyAttributes, srcAccessOrder);
    FIELD(cudaMemcpyAttributes, srcLocHint);
    FIELD(cudaMemcpyAttributes, dstLocHint);
    FIELD(cudaMemcpyAttributes, flags);
#endif
    STRUCT(cudaMemsetParams);
    FIELD(cudaMemsetParams, dst);
    FIELD(cudaMemsetParams, pitch);
    FIELD(cudaMemsetParams, value);
    FIELD(cudaMemsetParams, elementSize);
    FIELD(cudaMemsetParams, width);
    FIELD(cudaMemsetParams, height);
#if CUDART_VERSION >= 12000
    SIZE(cudaGraphExecUpdateResultInfo);
    VALUE("cudaGraphExecUpdateResultInfo.result", offsetof(cudaGraphExecUpdateResultInfo, result));
    VALUE("cudaGraphExecUpdateResultInfo.errorNode", offsetof(cudaGraphExecUpdateResultInfo, errorNode));
    VALUE("cudaGraphExecUpdateResultInfo.errorFromNode", offsetof(cudaGraphExecUpdateResultInfo, errorFromNode));
    SIZE(CUDA_KERNEL_NODE_PARAMS);
    VALUE("CUDA_KERNEL_NODE_PARAMS.kern", offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
    VALUE("CUDA_KERNEL_NODE_PARAMS.ctx", offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
#endif
    VALUE("CUDA_KERNEL_NODE_PARAMS.func", offsetof(CUDA_KERNEL_NODE_PARAMS, func));
    VALUE("CUDA_KERNEL_NODE_PARAMS.gridDimX", offsetof(CUDA_KERNEL_NODE_PARAMS, gridDimX));
    VALUE("CUDA_KERNEL_NODE_PARAMS.blockDimX", offsetof(CUDA_KERNEL_NODE_PARAMS, blockDimX));
    VALUE("CUDA_KERNEL_NODE_PARAMS.sharedMemBytes", offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes));
    VALUE("CUDA_KERNEL_NODE_PARAMS.kernelParams", offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
    VALUE("CUDA_KERNEL_NODE_PARAMS.extra", offsetof(CUDA_KERNEL_NODE_PARAMS, extra));
    SIZE(cudaError_t);
    SIZE(CUresult);
    SIZE(CUdeviceptr);
    SIZE(CUdevice);
    CONSTANT(cudaCpuDeviceId);
    CONSTANT(cudaInvalidDeviceId);
    VALUE("cudaStreamLegacy", (size_t)cudaStreamLegacy);
    VALUE("cudaStreamPerThread", (size_t)cudaStreamPerThread);
/* A line `CONSTANT(name);` for each constant of the bindings that these headers mention. */
#include "constants.h"
    return 0;
}
