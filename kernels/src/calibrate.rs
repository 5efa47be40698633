//! Measures times of copies and kernels for the cost model of the local machine, within a second, and keeps the model in the user's cache
//! folder. The next call on this machine reads the file.
//!
//! ```no_run
//! use cuda_um::cost::CostModel;
//! use um_kernels::calibrate::{Cache, Clock, OfThisMachine};
//!
//! let device = cuda_um::Runtime::open()?.device(0)?;
//! device.set_cost_model(CostModel::of_this_machine(&device)?)?;
//! println!("{}", device.cost_model().source);
//!
//! let cache = Cache::of_user()?; // or `Cache::at` a folder
//! println!("{}", cache.path(&device)?.display());
//! cache.load_or_measure(&device, &Clock::wall())?;
//! cache.measure(&device, &Clock::wall())?; // anew
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `CUDA_UM_COST_MODEL` names a file that is used instead.
//!
//! - The file is `<cache folder>/cuda-um/cost/<GPU, version of the CUDA driver, CPU>.json`; the cache folder is `$XDG_CACHE_HOME` or
//!   `~/.cache` on Linux, `%LOCALAPPDATA%` on Windows.
//! - It is replaced as a whole, so a reader never sees a part of it. A lock file makes other threads and processes wait for one measurement.
//! - A file that is damaged, or that another machine or an earlier method measured, is measured anew, with a warning (`tracing`).
//! - A measurement needs less than 64 MiB each of device, managed and pinned memory. Every result is verified.
//! - The values that are not measured are those of the built-in model for the GPU. The model's `source` says so.

mod cache;
mod clock;
mod copies;
mod error;
mod host;
mod kernels;
mod machine;
mod measure;
mod session;

pub use cache::Cache;
pub use clock::Clock;
pub use error::{CalibrateError, Result};

use cuda_um::Device;
use cuda_um::cost::CostModel;
use measure::measure;

/// The environment variable that names the file of a model. `cuda-um` reads it as well, when a device is opened.
const COST_MODEL: &str = "CUDA_UM_COST_MODEL";

/// The constructor [`CostModel::of_this_machine`](Self::of_this_machine).
pub trait OfThisMachine: Sized {
    /// The cost model of this device on this machine: the file that `CUDA_UM_COST_MODEL` names; otherwise the file in the user's cache
    /// folder; otherwise measured, which takes less than a second, and kept there.
    ///
    /// The model is not set for the device: see [`Device::set_cost_model`]. If the cache folder cannot be used, the model is measured and
    /// not kept, and a warning gives the reason.
    ///
    /// # Ordering
    ///
    /// A measurement runs on a stream of its own and on that of the library, which do not wait for other streams. Work that the device does at the same time makes
    /// the result worse.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Variable`] if `CUDA_UM_COST_MODEL` names a file that is not a cost model; [`CalibrateError::Device`];
    /// [`CalibrateError::Step`].
    fn of_this_machine(device: &Device) -> Result<Self>;
}

impl OfThisMachine for CostModel {
    fn of_this_machine(device: &Device) -> Result<Self> {
        if let Some(path) = cuda_um::sys::variable(COST_MODEL) {
            return Self::from_file(&path).map_err(|source| CalibrateError::Variable {
                variable: COST_MODEL,
                path: path.into(),
                source,
            });
        }
        let clock = Clock::wall();
        match Cache::of_user() {
            Ok(cache) => cache.load_or_measure(device, &clock),
            Err(error) => {
                tracing::warn!("the cost model is not kept: {error}");
                measure(device, &clock)
            }
        }
    }
}
