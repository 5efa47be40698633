//! Traces: their contents, on the simulator and (`CUDA_UM_TEST_RUNTIME=cuda`) with a real CUPTI.

#[path = "profile/alone.rs"]
mod alone;
#[path = "profile/attribution.rs"]
mod attribution;
#[path = "profile/counter.rs"]
mod counter;
#[path = "profile/refusals.rs"]
mod refusals;
#[path = "profile/rounds.rs"]
mod rounds;
#[path = "profile/sums.rs"]
mod sums;
