/* Prints the C compiler's values for NCCL's header, one `name value` in each line. */
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, value) printf("%s %lld\n", name, (long long)(value))
#define NUMBER(name) VALUE(#name, name)
#define FIELD(name) VALUE("ncclConfig_t." #name, offsetof(ncclConfig_t, name))

int main(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    FIELD(size); FIELD(magic); FIELD(version); FIELD(blocking); FIELD(cgaClusterSize); FIELD(minCTAs); FIELD(maxCTAs); FIELD(netName);
    VALUE("magic", config.magic);
    VALUE("blocking", config.blocking);
    VALUE("sizeof ncclUniqueId", sizeof(ncclUniqueId));
    VALUE("sizeof ncclResult_t", sizeof(ncclResult_t));
    VALUE("NCCL_VERSION_CODE", NCCL_VERSION_CODE);
#include "numbers.h"
    return 0;
}
