//! Typed buffers over memory of each kind, and copies between them.

mod adopted;
mod arena;
pub(crate) mod array;
pub(crate) mod copy;
mod copy_within;
pub(crate) mod export;
pub(crate) mod fill;
pub(crate) mod future;
pub(crate) mod guard;
#[doc(hidden)]
pub mod host_vec;
pub mod kind;
mod mapped_file;
pub(crate) mod memory;
mod methods;
pub(crate) mod overwrite;
pub(crate) mod owned;
mod read_at;
pub(crate) mod registered;
mod text;
pub(crate) mod transfer;
pub(crate) mod unified;
pub(crate) mod view;

pub use crate::buffer::export::Exported;
pub use crate::buffer::guard::Guard;
pub use crate::buffer::overwrite::{Filled, Slots};
pub use crate::buffer::owned::{HostOwned, HostOwnedMut};
#[doc(hidden)]
pub use crate::buffer::read_at::read_into;
pub use crate::buffer::read_at::{FileRead, ReadAt, Runs};
#[doc(hidden)]
pub use crate::buffer::text::first_elements;
pub use crate::buffer::transfer::TransferOptions;
pub use crate::buffer::view::InPlace;
pub use crate::element::ElementType;
