//! cuda-core, cuTile and cuda-um in one process: `./env cargo test` runs it over the simulator's libraries, and a bundle on a GPU.
#![allow(unsafe_code, missing_docs, reason = "launches kernels of cuda-core")]

mod order;
mod support;
mod uses;
mod wrong_uses;
