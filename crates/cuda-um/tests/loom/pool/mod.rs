//! Models of a pool.

mod free_blocks;
mod whole;
