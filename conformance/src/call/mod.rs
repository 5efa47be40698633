//! The functions of the table, as the cases call them: the only `unsafe` of this crate.
//!
//! Cases ask for what is wrong on purpose, so an address here is a number, and CUDA is what checks it. What would be undefined
//! behaviour and not an error is kept from the cases: host memory is read and written through [`Memory`], within its bounds;
//! kernels get their arguments from [`Cuda::add`] and its like, which know what each kernel takes; handles that CUDA may follow
//! come from guards, or are one of the numbers that CUDA documents.
#![allow(unsafe_code, reason = "calls the C functions of the table")]

mod code;
mod cuda;
pub(crate) mod device;
pub(crate) mod driver;
mod error;
pub(crate) mod flag;
mod gate;
mod memory;
mod place;
mod pool;
mod stream;
mod transfer;

pub(crate) use code::Code;
pub use cuda::Cuda;
pub(crate) use cuda::fail;
pub(crate) use memory::Memory;
pub(crate) use place::{Attribute, Place, advice, whole};
pub(crate) use pool::Pool;
pub(crate) use stream::{Event, LEGACY, PER_THREAD, Stream};
pub(crate) use transfer::kind;
