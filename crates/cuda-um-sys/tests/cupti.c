/* Prints the C compiler's values for CUPTI's headers, one `name value` in each line. */
#include <cuda.h>
#include <cupti.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, value) printf("%s %lld\n", name, (long long)(value))
#define NUMBER(name) VALUE(#name, name)
#define FIELD(type, field) VALUE(#type "." #field, offsetof(type, field))
#define COUNTER(type) \
    FIELD(type, kind); FIELD(type, counterKind); FIELD(type, value); FIELD(type, start); FIELD(type, end); \
    FIELD(type, address); FIELD(type, srcId); FIELD(type, dstId); FIELD(type, processId); FIELD(type, flags); \
    VALUE("sizeof " #type, sizeof(type))
#define KERNEL(type) \
    VALUE("Kernel.kind", offsetof(type, kind)); VALUE("Kernel.start", offsetof(type, start)); \
    VALUE("Kernel.end", offsetof(type, end)); VALUE("Kernel.deviceId", offsetof(type, deviceId)); \
    VALUE("Kernel.contextId", offsetof(type, contextId)); VALUE("Kernel.streamId", offsetof(type, streamId)); \
    VALUE("Kernel.correlationId", offsetof(type, correlationId)); VALUE("Kernel.name", offsetof(type, name)); \
    VALUE("sizeof Kernel", sizeof(type))

int main(void) {
    COUNTER(CUpti_ActivityUnifiedMemoryCounter2);
#if CUPTI_API_VERSION >= 28
    COUNTER(CUpti_ActivityUnifiedMemoryCounter3);
#endif
#if CUPTI_API_VERSION >= 130000
    KERNEL(CUpti_ActivityKernel10);
#elif CUPTI_API_VERSION >= 20
    KERNEL(CUpti_ActivityKernel9);
#else
    KERNEL(CUpti_ActivityKernel8);
#endif
    FIELD(CUpti_ActivityUnifiedMemoryCounterConfig, scope);
    FIELD(CUpti_ActivityUnifiedMemoryCounterConfig, kind);
    FIELD(CUpti_ActivityUnifiedMemoryCounterConfig, deviceId);
    FIELD(CUpti_ActivityUnifiedMemoryCounterConfig, enable);
    VALUE("sizeof CUpti_ActivityUnifiedMemoryCounterConfig", sizeof(CUpti_ActivityUnifiedMemoryCounterConfig));
    NUMBER(CUPTI_API_VERSION);
#include "numbers.h"
    return 0;
}
