//! The tests of the kernels.

mod cosine_top_k;
mod kernels;
