//! Bindings of the CUDA runtime, loaded at run time: one binary for CUDA 11.8 to 13.x.
//!
//! - The bindings are made by bindgen from NVIDIA's headers of 11.8, 12.9 and 13.x, and checked in: building needs no CUDA toolkit
//!   and no libclang. The feature `generate` makes them anew from the toolkit on the machine.
//! - [`load`] finds a libcudart and fills a [`Table`] by name. Nothing is linked. Functions that a version lacks are `Option`;
//!   functions whose signature changed have a field for each signature, chosen by the version that the library tells at run time.
//! - Anybody can fill a table with [`Table::from_symbols`]: this is how the simulator comes in.
//!
//! What this crate does not do: check anything. Everything in the table is `unsafe` to call, with CUDA's own contracts.
//!
//! ```
//! use cuda_um_sys::{LoadError, cudaError};
//!
//! let table = match cuda_um_sys::load() {
//!     Ok(table) => table,
//!     Err(error @ LoadError::NotFound { .. }) => return println!("{error}"),
//!     Err(error) => panic!("{error}"),
//! };
//! let mut count = 0;
//! // SAFETY: `count` is valid for the call.
//! match unsafe { (table.cudaGetDeviceCount)(&mut count) } {
//!     cudaError::cudaSuccess => println!("CUDA {}, {count} devices", table.version()),
//!     error => println!("CUDA {}: error {}", table.version(), error.0),
//! }
//! ```
#![allow(unsafe_code, reason = "this crate is the door to C")]

/// A generated file: the one checked in, or under the feature `generate` the one made from the toolkit of this machine.
// `include!` also keeps rustfmt away from text that `cargo xtask bindgen --check` compares to the letter.
macro_rules! generated {
    ($file:literal) => {
        #[cfg(not(feature = "generate"))]
        include!($file);
        #[cfg(feature = "generate")]
        include!(concat!(env!("OUT_DIR"), "/", $file));
    };
}

/// What NVIDIA's headers declare: what the versions agree on, and what differs apart.
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "C names, made by bindgen"
)]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, reason = "generated")]
pub mod bindings {
    /// What all versions agree on; at the root of the crate too.
    pub mod common {
        generated!("bindings/common.rs");
    }
    /// What is particular to CUDA 11.
    pub mod v11 {
        generated!("bindings/v11.rs");
    }
    /// What is particular to CUDA 12.
    pub mod v12 {
        generated!("bindings/v12.rs");
    }
    /// What is particular to CUDA 13.
    pub mod v13 {
        generated!("bindings/v13.rs");
    }
}

mod constants;
#[allow(non_snake_case, reason = "C names")]
mod cupti;
mod error;
mod handle;
mod loader;
mod pointer_attributes;
mod symbols;
#[allow(non_snake_case, reason = "C names")]
mod table {
    generated!("table.rs");
}
mod version;

pub use bindings::common::*;
pub use constants::*;
pub use cupti::*;
pub use error::{Attempt, LoadError};
pub use handle::Table;
pub use loader::{load, load_from};
pub use pointer_attributes::PointerAttributes;
pub use table::{DriverTable, Functions};
pub use version::RuntimeVersion;
