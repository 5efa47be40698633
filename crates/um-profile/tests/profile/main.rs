//! Traces: their contents, on the simulator and (`CUDA_UM_TEST_RUNTIME=cuda`) with a real CUPTI.

mod alone;
mod attribution;
mod counter;
mod refusals;
mod rounds;
mod sums;
