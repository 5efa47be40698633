/* What some f32 kernels of candle do, for the simulator: CUDA_UM_SIM_KERNELS names this library. */
#include "../../../crates/cuda-um-sim/libcuda/include/cuda_um_sim.h"
#include <math.h>
#include <stdint.h>

typedef const cudaUmSimLaunch *Launch;

/* The offset of element `index` in memory with these dimensions and strides. */
static size_t offset(size_t index, size_t dimensions, const size_t *info) {
    size_t at = 0;
    for (size_t d = dimensions; info && d-- > 0; index /= info[d])
        at += index % info[d] * info[dimensions + d];
    return info ? at : index;
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

/* Both inputs are contiguous. */
static int add(Launch launch) {
    uint64_t count, info;
    if (launch->value(launch, 0, &count, 8) || launch->value(launch, 2, &info, 8) || info)
        return 1;
    const float *left = launch->read(launch, 3, 4 * count), *right = launch->read(launch, 4, 4 * count);
    float *out = launch->write(launch, 5, 4 * count);
    if (!left || !right || !out)
        return 1;
    for (uint64_t i = 0; i < count; i++)
        out[i] = left[i] + right[i];
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
           || register_kernel("layernorm_f32", layer_norm) || register_kernel("copy2d_f32", copy_2d);
}
