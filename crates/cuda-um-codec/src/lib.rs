#![doc = include_str!("../README.md")]

mod bits;
mod block;
mod error;
mod format;
mod stream;

pub use error::CodecError;
pub use format::{BLOCK, ENTRY_WORDS, HEADER_WORDS, table_words};
pub use stream::{Compressed, compress, decode_blocks};
