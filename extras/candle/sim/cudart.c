/* libcudart for tests over the simulator: the functions that nvcc's code calls when a program starts, and that candle's static kernels call.
   The others are those of the simulator's libcuda, on which this library depends. */
enum { NOT_SUPPORTED = 801 };

static void *module;
void **__cudaRegisterFatBinary(void *binary) { return (void)binary, &module; }
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
void __cudaRegisterFunction(void) {}
void __cudaRegisterVar(void) {}

#define MISSING(name)                                                                                                                          \
    int name(void) { return NOT_SUPPORTED; }
MISSING(__cudaPushCallConfiguration)
MISSING(__cudaPopCallConfiguration)
MISSING(__cudaGetKernel)
MISSING(__cudaLaunchKernel_ptsz)
MISSING(cudaFuncSetAttribute)
MISSING(cudaFuncGetAttributes)
MISSING(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
MISSING(cudaStreamSynchronize_ptsz)
MISSING(cudaMemsetAsync_ptsz)
MISSING(cudaMallocAsync_ptsz)
MISSING(cudaFreeAsync_ptsz)
