//! The functions of the table, as called by the cases. This is the only `unsafe` code of this crate.
//!
//! Cases pass wrong arguments on purpose, so an address here is a number, and CUDA checks it. The cases cannot cause undefined
//! behaviour: they read and write host memory only through [`Memory`], within its bounds; kernels get their arguments from
//! [`Cuda::add`] and similar functions, which match the parameters of each kernel; handles that CUDA may dereference come from
//! guards, or are numbers that CUDA documents.
#![allow(unsafe_code, reason = "calls the C functions of the table")]

/// The code of a call.
macro_rules! call {
    ($($call:tt)*) => { $crate::call::Code(cuda_um_testkit::call!($($call)*).0) };
}

mod code;
mod condition;
mod cuda;
pub(crate) mod device;
pub(crate) mod driver;
mod error;
pub(crate) mod flag;
mod gate;
mod graph;
mod memory;
mod place;
mod pool;
mod stream;
mod transfer;

pub(crate) use code::Code;
pub use cuda::Cuda;
pub(crate) use cuda::fail;
pub(crate) use cuda_um_testkit::call::{Place, Shape};
pub(crate) use graph::{Exec, Graph, mode, status};
pub(crate) use memory::Memory;
pub(crate) use place::{Attribute, advice, whole};
pub(crate) use pool::Pool;
pub(crate) use stream::{Event, LEGACY, PER_THREAD, Stream};
pub(crate) use transfer::kind;
