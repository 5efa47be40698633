//! What moving memory between the host and a GPU costs.
//!
//! One [`CostModel`] serves everybody who has to predict: the clock of the simulator, and decisions where memory should be. It
//! comes from one of three places:
//!
//! - [`CostModel::built_in`]: figures for a class of [`Link`]. Those for PCIe 5 were measured on an H200, the others follow
//!   from the link's and the memory's bandwidth and were **measured nowhere**.
//! - [`CostModel::from_json`]: a calibration, as `cargo xtask calibrate` writes it.
//! - a program, which sets the fields it knows better.
//!
//! ```
//! use cuda_um_cost::{CostModel, Link};
//!
//! // An H200 says compute capability 9.0, and that it does not use the host's page tables.
//! let mut cost = CostModel::built_in(Link::of((9, 0), false));
//! assert_eq!(cost.name, "H200, PCIe 5 x16");
//! cost.pinned_rate = 25e9;
//! assert_eq!(CostModel::from_json(&cost.to_json())?, cost);
//! # Ok::<(), cuda_um_cost::CostError>(())
//! ```

mod error;
mod figure;
mod json;
mod link;
mod model;
mod preset;

pub use error::CostError;
pub use figure::Figure;
pub use link::Link;
pub use model::CostModel;
