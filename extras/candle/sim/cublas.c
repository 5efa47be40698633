/* libcublas for tests over the simulator: handles, and products of f32 matrices. Each other function is "not supported". */
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

/* Column-major c = a * b; a thread for each element. */
static const char *const PTX =
    ".version 6.4\n.target sm_52\n.address_size 64\n"
    ".visible .entry um_candle_sgemm(.param .u64 a, .param .u64 b, .param .u64 c, .param .align 8 .b8 sizes[96]) {\n"
    ".reg .pred %p;\n"
    ".reg .b32 %r<3>;\n"
    ".reg .f32 %f<3>;\n"
    ".reg .b64 %at, %row, %column, %batch, %a, %b, %c, %n, %k, %as, %bs, %x;\n"
    "mov.u32 %r0, %ctaid.x;\n"
    "mov.u32 %r1, %ntid.x;\n"
    "mov.u32 %r2, %tid.x;\n"
    "mul.wide.u32 %at, %r0, %r1;\n"
    "cvt.u64.u32 %x, %r2;\n"
    "add.u64 %at, %at, %x;\n"
    "ld.param.u64 %x, [sizes+16];\n"
    "rem.u64 %row, %at, %x;\n"
    "div.u64 %at, %at, %x;\n"
    "ld.param.u64 %n, [sizes+24];\n"
    "rem.u64 %column, %at, %n;\n"
    "div.u64 %batch, %at, %n;\n"
    "ld.param.u64 %x, [sizes+88];\n"
    "setp.ge.u64 %p, %batch, %x;\n"
    "@%p ret;\n"
    /* Steps of a and b in elements, and the first ones. */
    "ld.param.u64 %x, [sizes+0];\n"
    "setp.ne.u64 %p, %x, 0;\n"
    "ld.param.u64 %x, [sizes+40];\n"
    "selp.b64 %as, 1, %x, %p;\n"
    "selp.b64 %x, %x, 1, %p;\n"
    "mul.lo.u64 %a, %row, %x;\n"
    "ld.param.u64 %x, [sizes+48];\n"
    "mad.lo.u64 %a, %batch, %x, %a;\n"
    "ld.param.u64 %x, [sizes+8];\n"
    "setp.ne.u64 %p, %x, 0;\n"
    "ld.param.u64 %x, [sizes+56];\n"
    "selp.b64 %bs, %x, 1, %p;\n"
    "selp.b64 %x, 1, %x, %p;\n"
    "mul.lo.u64 %b, %column, %x;\n"
    "ld.param.u64 %x, [sizes+64];\n"
    "mad.lo.u64 %b, %batch, %x, %b;\n"
    "ld.param.u64 %x, [sizes+72];\n"
    "mad.lo.u64 %c, %column, %x, %row;\n"
    "ld.param.u64 %x, [sizes+80];\n"
    "mad.lo.u64 %c, %batch, %x, %c;\n"
    "ld.param.u64 %x, [a];\n"
    "mad.lo.u64 %a, %a, 4, %x;\n"
    "ld.param.u64 %x, [b];\n"
    "mad.lo.u64 %b, %b, 4, %x;\n"
    "ld.param.u64 %x, [c];\n"
    "mad.lo.u64 %c, %c, 4, %x;\n"
    "mov.f32 %f0, 0f00000000;\n"
    "ld.param.u64 %k, [sizes+32];\n"
    "PRODUCT:\n"
    "setp.eq.u64 %p, %k, 0;\n"
    "@%p bra DONE;\n"
    "ld.global.f32 %f1, [%a];\n"
    "ld.global.f32 %f2, [%b];\n"
    "fma.rn.f32 %f0, %f1, %f2, %f0;\n"
    "mad.lo.u64 %a, %as, 4, %a;\n"
    "mad.lo.u64 %b, %bs, 4, %b;\n"
    "sub.u64 %k, %k, 1;\n"
    "bra PRODUCT;\n"
    "DONE:\n"
    "st.global.f32 [%c], %f0;\n"
    "ret;\n"
    "}\n";

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
        if (cuModuleLoadData(&handle->module, PTX)
            || cuModuleGetFunction(&handle->function, handle->module, "um_candle_sgemm"))
            return NOT_INITIALIZED;
    }
    Sizes sizes = {transposed_a, transposed_b, m, n, k, lda, stride_a, ldb, stride_b, ldc, stride_c, batches};
    void *parameters[] = {&a, &b, &c, &sizes};
    unsigned blocks = ((long long)m * n * batches + 255) / 256;
    return cuLaunchKernel(handle->function, blocks, 1, 1, 256, 1, 1, 0, handle->stream, parameters, NULL) ? EXECUTION_FAILED : 0;
}

#define MISSING(name)                                                                                                                          \
    int name(void) { return NOT_SUPPORTED; }
MISSING(cublasDgemmStridedBatched)
MISSING(cublasGemmEx)
