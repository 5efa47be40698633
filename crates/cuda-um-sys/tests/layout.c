/* What the C compiler makes of NVIDIA's headers, one `name value` a line. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, value) printf("%s %lld\n", name, (long long)(value))

int main(void) {
    VALUE("sizeof cudaMemLocation", sizeof(struct cudaMemLocation));
    VALUE("cudaMemLocation.type", offsetof(struct cudaMemLocation, type));
    VALUE("cudaMemLocation.id", offsetof(struct cudaMemLocation, id));
    VALUE("sizeof cudaMemPoolProps", sizeof(struct cudaMemPoolProps));
    VALUE("cudaMemPoolProps.location", offsetof(struct cudaMemPoolProps, location));
    VALUE("sizeof cudaMemAccessDesc", sizeof(struct cudaMemAccessDesc));
    VALUE("sizeof cudaPointerAttributes", sizeof(struct cudaPointerAttributes));
    VALUE("cudaPointerAttributes.type", offsetof(struct cudaPointerAttributes, type));
    VALUE("cudaPointerAttributes.device", offsetof(struct cudaPointerAttributes, device));
    VALUE("cudaPointerAttributes.devicePointer", offsetof(struct cudaPointerAttributes, devicePointer));
    VALUE("cudaPointerAttributes.hostPointer", offsetof(struct cudaPointerAttributes, hostPointer));
    VALUE("cudaErrorMemoryAllocation", cudaErrorMemoryAllocation);
    VALUE("cudaErrorInsufficientDriver", cudaErrorInsufficientDriver);
    VALUE("cudaErrorIllegalAddress", cudaErrorIllegalAddress);
    VALUE("cudaErrorNotReady", cudaErrorNotReady);
    VALUE("cudaDevAttrManagedMemory", cudaDevAttrManagedMemory);
    VALUE("cudaDevAttrPageableMemoryAccess", cudaDevAttrPageableMemoryAccess);
    VALUE("cudaDevAttrConcurrentManagedAccess", cudaDevAttrConcurrentManagedAccess);
    VALUE("cudaDevAttrHostRegisterSupported", cudaDevAttrHostRegisterSupported);
    VALUE("cudaDevAttrMemoryPoolsSupported", cudaDevAttrMemoryPoolsSupported);
    VALUE("cudaMemAdviseSetReadMostly", cudaMemAdviseSetReadMostly);
    VALUE("cudaMemAdviseSetPreferredLocation", cudaMemAdviseSetPreferredLocation);
    VALUE("cudaMemAdviseUnsetAccessedBy", cudaMemAdviseUnsetAccessedBy);
    VALUE("cudaMemRangeAttributeLastPrefetchLocation", cudaMemRangeAttributeLastPrefetchLocation);
    VALUE("cudaMemLocationTypeDevice", cudaMemLocationTypeDevice);
    VALUE("cudaMemAttachGlobal", cudaMemAttachGlobal);
    VALUE("cudaHostAllocMapped", cudaHostAllocMapped);
    VALUE("cudaStreamNonBlocking", cudaStreamNonBlocking);
    VALUE("cudaEventDisableTiming", cudaEventDisableTiming);
    VALUE("CUDA_ERROR_NOT_FOUND", CUDA_ERROR_NOT_FOUND);
    VALUE("sizeof CUdeviceptr", sizeof(CUdeviceptr));
    return 0;
}
