//! Tensors of candle in unified memory, over the simulator or on a GPU: `./env cargo test`.
#![allow(unsafe_code, missing_docs, reason = "lends memory")]

mod lend;
mod own;
mod place;
mod support;
mod weights;
mod wrong_uses;
