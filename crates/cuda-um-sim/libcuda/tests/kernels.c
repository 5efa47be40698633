/* A library for CUDA_UM_SIM_KERNELS: the kernel `my_scale(in, out, factor, len)`. */
#include "../include/cuda_um_sim.h"

static int my_scale(const cudaUmSimLaunch *launch) {
    float factor;
    unsigned long long len;
    if (launch->value(launch, 2, &factor, sizeof factor) || launch->value(launch, 3, &len, sizeof len))
        return 1;
    const float *in = launch->read(launch, 0, len * sizeof *in);
    float *out = launch->write(launch, 1, len * sizeof *out);
    if (!in || !out)
        return 2;
    for (unsigned long long i = 0; i < len; i++)
        out[i] = in[i] * factor;
    return 0;
}

int cudaUmSimKernels(cudaUmSimRegister register_kernel) {
    return register_kernel("my_scale", my_scale);
}
