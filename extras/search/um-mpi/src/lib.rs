#![doc = include_str!("../README.md")]

#[cfg(not(unix))]
compile_error!("um-mpi is for Linux and macOS: no MPI library for Windows has the ABI of MPI 5");

mod abi;
mod communicator;
mod error;
mod header;
mod library;
mod mpi;
mod state;
mod watch;
mod witness;

pub use communicator::Communicator;
pub use error::MpiError;
pub use mpi::Mpi;
