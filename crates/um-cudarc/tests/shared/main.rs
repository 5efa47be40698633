//! cudarc and cuda-um in one process, over the simulator's libraries, or on a GPU with `CUDA_UM_TEST_RUNTIME=cuda`.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code, missing_docs, reason = "launches kernels of cudarc")]

mod lend;
mod order;
mod plain;
mod profile;
mod support;
mod wrong_uses;
