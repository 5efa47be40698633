//! cuda-core, cuTile and cuda-um in one process: `cargo xtask cuda-core` runs it over the simulator's libraries, and its bundle on a GPU.
#![allow(unsafe_code, missing_docs, reason = "launches kernels of cuda-core")]

mod order;
mod support;
mod uses;
mod wrong_uses;
