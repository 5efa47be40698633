#![doc = include_str!("../README.md")]

mod each;
mod error;
mod foreign;
mod gguf;
mod header;
mod info;
mod kinds;
mod load;
mod map;
mod options;
mod plan;
mod printable;
mod read;
mod save;
mod shard;
mod tensor;
mod unique;
mod weights;

pub use each::LoadEach;
pub use error::Error;
pub use info::TensorInfo;
pub use options::LoadOptions;
pub use printable::printable;
pub use save::Save;
pub use tensor::Tensor;
pub use weights::Weights;

/// Buffers and backends.
pub use um_backend;
