// totals[i] = prices[i] * (1 + rate)
extern "C" __global__ void add_tax(const float *prices, float *totals, float rate, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) totals[i] = prices[i] * (1 + rate);
}
