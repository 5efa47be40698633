/* What some f32 kernels of candle do, for the simulator: CUDA_UM_SIM_KERNELS names this library. */
#include "../../../crates/cuda-um-sim/libcuda/include/cuda_um_sim.h"
#include <math.h>
#include <stdint.h>

typedef const cudaUmSimLaunch *Launch;

/* The offset of element `index` in memory with these dimensions and strides (or null). */
static size_t offset_in(size_t index, size_t dimensions, const size_t *info, const size_t *strides) {
    size_t at = 0;
    for (size_t d = dimensions; info && d-- > 0; index /= info[d])
        at += index % info[d] * strides[d];
    return info ? at : index;
}

static size_t offset(size_t index, size_t dimensions, const size_t *info) {
    return offset_in(index, dimensions, info, info + dimensions);
}

/* The parameters of kernels with one input: count, dimensions, dimensions and strides (or null); input and output. */
typedef struct {
    size_t count, dimensions;
    const size_t *info;
    const float *in;
    float *out;
} Elements;

static int elements(Launch launch, Elements *e, unsigned in, unsigned out) {
    uint64_t info;
    if (launch->value(launch, 0, &e->count, 8) || launch->value(launch, 1, &e->dimensions, 8) || launch->value(launch, 2, &info, 8))
        return 1;
    e->info = info ? launch->read(launch, 2, 16 * e->dimensions) : 0;
    size_t last = e->count ? offset(e->count - 1, e->dimensions, e->info) : 0;
    e->in = launch->read(launch, in, 4 * (last + 1));
    e->out = launch->write(launch, out, 4 * e->count);
    return !e->in || !e->out;
}

static int affine(Launch launch) {
    Elements e;
    float factor, addend;
    if (elements(launch, &e, 3, 4) || launch->value(launch, 5, &factor, 4) || launch->value(launch, 6, &addend, 4))
        return 1;
    for (size_t i = 0; i < e.count; i++)
        e.out[i] = e.in[offset(i, e.dimensions, e.info)] * factor + addend;
    return 0;
}

static int copy(Launch launch) {
    Elements e;
    if (elements(launch, &e, 3, 4))
        return 1;
    for (size_t i = 0; i < e.count; i++)
        e.out[i] = e.in[offset(i, e.dimensions, e.info)];
    return 0;
}

static int gelu(Launch launch) {
    Elements e;
    if (elements(launch, &e, 3, 4))
        return 1;
    for (size_t i = 0; i < e.count; i++) {
        float x = e.in[offset(i, e.dimensions, e.info)];
        e.out[i] = 0.5f * x * (1 + tanhf((float)(M_2_SQRTPI * M_SQRT1_2) * (x + 0.044715f * x * x * x)));
    }
    return 0;
}

/* Dimensions, and strides of both inputs; or null. */
static int add(Launch launch) {
    uint64_t count, n, info;
    if (launch->value(launch, 0, &count, 8) || launch->value(launch, 1, &n, 8) || launch->value(launch, 2, &info, 8))
        return 1;
    const size_t *all = info ? launch->read(launch, 2, 24 * n) : 0;
    size_t last = count ? count - 1 : 0;
    const float *left = launch->read(launch, 3, 4 * (offset_in(last, n, all, all + n) + 1));
    const float *right = launch->read(launch, 4, 4 * (offset_in(last, n, all, all + 2 * n) + 1));
    float *out = launch->write(launch, 5, 4 * count);
    if (!left || !right || !out)
        return 1;
    for (uint64_t i = 0; i < count; i++)
        out[i] = left[offset_in(i, n, all, all + n)] + right[offset_in(i, n, all, all + 2 * n)];
    return 0;
}

/* The rows of a matrix that have these numbers. */
static int select_rows(Launch launch) {
    size_t count, rows, chosen, columns;
    if (launch->value(launch, 0, &count, 8) || launch->value(launch, 7, &rows, 8) || launch->value(launch, 8, &chosen, 8)
        || launch->value(launch, 9, &columns, 8))
        return 1;
    const uint32_t *numbers = launch->read(launch, 3, 4 * chosen);
    const float *in = launch->read(launch, 4, 4 * rows * columns);
    float *out = launch->write(launch, 5, 4 * count);
    if (!numbers || !in || !out)
        return 1;
    for (size_t i = 0; i < count; i++)
        out[i] = in[numbers[i / columns] * columns + i % columns];
    return 0;
}

/* bfloat16 to float; contiguous. */
static int widen(Launch launch) {
    size_t count;
    if (launch->value(launch, 0, &count, 8))
        return 1;
    const uint16_t *in = launch->read(launch, 3, 2 * count);
    uint32_t *out = launch->write(launch, 4, 4 * count);
    if (!in || !out)
        return 1;
    for (size_t i = 0; i < count; i++)
        out[i] = (uint32_t)in[i] << 16;
    return 0;
}

static int softmax(Launch launch) {
    int columns;
    if (launch->value(launch, 2, &columns, 4))
        return 1;
    size_t rows = launch->grid[0] * launch->block[0], bytes = 4 * rows * columns;
    const float *in = launch->read(launch, 0, bytes);
    float *out = launch->write(launch, 1, bytes);
    if (!in || !out)
        return 1;
    for (size_t row = 0; row < rows; row++, in += columns, out += columns) {
        float most = -INFINITY, sum = 0;
        for (int i = 0; i < columns; i++)
            most = fmaxf(most, in[i]);
        for (int i = 0; i < columns; i++)
            sum += out[i] = expf(in[i] - most);
        for (int i = 0; i < columns; i++)
            out[i] /= sum;
    }
    return 0;
}

static int layer_norm(Launch launch) {
    int columns;
    float epsilon;
    if (launch->value(launch, 4, &columns, 4) || launch->value(launch, 6, &epsilon, 4))
        return 1;
    size_t rows = launch->grid[0] * launch->block[1], bytes = 4 * rows * columns;
    const float *in = launch->read(launch, 0, bytes), *scale = launch->read(launch, 2, 4 * columns);
    /* The scale and the shift may be one tensor. */
    const float *shift = launch->read(launch, 3, 4 * columns);
    float *out = launch->write(launch, 1, bytes);
    if (!in || !scale || !shift || !out)
        return 1;
    for (size_t row = 0; row < rows; row++, in += columns, out += columns) {
        float sum = 0, squares = 0;
        for (int i = 0; i < columns; i++)
            sum += in[i], squares += in[i] * in[i];
        float mean = sum / columns, inverse = 1 / sqrtf(squares / columns - mean * mean + epsilon);
        for (int i = 0; i < columns; i++)
            out[i] = (in[i] - mean) * inverse * scale[i] + shift[i];
    }
    return 0;
}

static int copy_2d(Launch launch) {
    uint32_t rows, columns, from, to;
    if (launch->value(launch, 2, &rows, 4) || launch->value(launch, 3, &columns, 4) || launch->value(launch, 4, &from, 4)
        || launch->value(launch, 5, &to, 4))
        return 1;
    const float *in = launch->read(launch, 0, 4 * ((rows - 1) * (size_t)from + columns));
    float *out = launch->write(launch, 1, 4 * ((rows - 1) * (size_t)to + columns));
    if (!in || !out)
        return 1;
    for (uint32_t i = 0; i < rows * columns; i++)
        out[i / columns * to + i % columns] = in[i / columns * from + i % columns];
    return 0;
}

int cudaUmSimKernels(cudaUmSimRegister register_kernel) {
    return register_kernel("affine_f32", affine) || register_kernel("ucopy_f32", copy) || register_kernel("ugelu_f32", gelu)
           || register_kernel("badd_f32", add) || register_kernel("softmax_f32", softmax)
           || register_kernel("layernorm_f32", layer_norm) || register_kernel("copy2d_f32", copy_2d)
           || register_kernel("is_u32_f32", select_rows) || register_kernel("cast_bf16_f32", widen);
}
