/* libcublas for tests over the simulator: handles, and products of f32 matrices. Each other function is "not supported". */
#include "../../../crates/cuda-um-sim/libcuda/include/cuda_um_sim.h"
#include <stdlib.h>
#include <string.h>

typedef void *Handle;
enum { NOT_INITIALIZED = 1, ALLOC_FAILED = 3, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15, F32 = 0 };

int cuModuleLoadData(Handle *module, const void *image);
int cuModuleUnload(Handle module);
int cuModuleGetFunction(Handle *function, Handle module, const char *name);
int cuLaunchKernel(Handle function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle stream, void **parameters,
                   void **extra);

typedef struct {
    long long transposed_a, transposed_b, m, n, k, lda, stride_a, ldb, stride_b, ldc, stride_c, batches;
} Sizes;

static const char *const PTX = ".version 6.4\n.target sm_52\n.address_size 64\n"
                               ".entry um_candle_sgemm(.param .u64 a, .param .u64 b, .param .u64 c, .param .align 8 .b8 sizes[96]) { ret; }\n";

/* Column-major c = a * b. */
static int product(const cudaUmSimLaunch *launch) {
    Sizes s;
    if (launch->value(launch, 3, &s, sizeof s))
        return 1;
    long long a_columns = s.transposed_a ? s.m : s.k, b_columns = s.transposed_b ? s.k : s.n, last = s.batches - 1;
    long long a_rows = s.transposed_a ? s.k : s.m, b_rows = s.transposed_b ? s.n : s.k;
    const float *a = launch->read(launch, 0, 4 * (last * s.stride_a + (a_columns - 1) * s.lda + a_rows));
    const float *b = launch->read(launch, 1, 4 * (last * s.stride_b + (b_columns - 1) * s.ldb + b_rows));
    float *c = launch->write(launch, 2, 4 * (last * s.stride_c + (s.n - 1) * s.ldc + s.m));
    if (!a || !b || !c)
        return 1;
    for (long long batch = 0; batch < s.batches; batch++)
        for (long long column = 0; column < s.n; column++)
            for (long long row = 0; row < s.m; row++) {
                float sum = 0;
                for (long long i = 0; i < s.k; i++)
                    sum += a[batch * s.stride_a + (s.transposed_a ? row * s.lda + i : i * s.lda + row)]
                           * b[batch * s.stride_b + (s.transposed_b ? i * s.ldb + column : column * s.ldb + i)];
                c[batch * s.stride_c + column * s.ldc + row] = sum;
            }
    return 0;
}

struct Blas {
    Handle stream, module, function;
};

int cublasCreate_v2(struct Blas **handle) {
    *handle = calloc(1, sizeof **handle);
    return *handle ? 0 : ALLOC_FAILED;
}

int cublasDestroy_v2(struct Blas *handle) {
    if (handle->module)
        cuModuleUnload(handle->module);
    free(handle);
    return 0;
}

int cublasSetStream_v2(struct Blas *handle, Handle stream) {
    handle->stream = stream;
    return 0;
}

int cublasGemmStridedBatchedEx(struct Blas *handle, int transposed_a, int transposed_b, int m, int n, int k, const float *alpha, Handle a,
                               int type_a, int lda, long long stride_a, Handle b, int type_b, int ldb, long long stride_b, const float *beta,
                               Handle c, int type_c, int ldc, long long stride_c, int batches, int compute, int algorithm) {
    (void)compute, (void)algorithm;
    if (type_a != F32 || type_b != F32 || type_c != F32 || *alpha != 1 || *beta != 0)
        return NOT_SUPPORTED;
    if (!handle->function) {
        if (cudaUmSimRegisterKernel("um_candle_sgemm", product) || cuModuleLoadData(&handle->module, PTX)
            || cuModuleGetFunction(&handle->function, handle->module, "um_candle_sgemm"))
            return NOT_INITIALIZED;
    }
    Sizes sizes = {transposed_a, transposed_b, m, n, k, lda, stride_a, ldb, stride_b, ldc, stride_c, batches};
    void *parameters[] = {&a, &b, &c, &sizes};
    return cuLaunchKernel(handle->function, 1, 1, 1, 1, 1, 1, 0, handle->stream, parameters, NULL) ? EXECUTION_FAILED : 0;
}

#define MISSING(name)                                                                                                                          \
    int name(void) { return NOT_SUPPORTED; }
MISSING(cublasDgemmStridedBatched)
MISSING(cublasGemmEx)
