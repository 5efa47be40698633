#![doc = include_str!("../README.md")]

mod error;
mod json;
mod link;
mod migration;
mod model;
mod peer;
mod presets;
mod values;

pub use error::CostError;
pub use link::LinkKind;
pub use migration::Faults;
pub use model::CostModel;
#[doc(hidden)]
pub use model::at_rate;
pub use peer::PeerLink;
