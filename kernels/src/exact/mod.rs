//! Exact top-k through a filter on tensor cores: lists equal to [`CosineTopK`]'s to the bit, several times as fast.
//!
//! `docs/exact-search.md` has the method, and the proof that nothing is lost.

pub(crate) mod bound;
mod launch;
mod modules;
mod plan;
mod prepared;
#[cfg(feature = "sim")]
pub(crate) mod sim;
mod tiles;

pub use launch::SearchBuffers;
pub use modules::FilterKernels;
pub use plan::{Filter, Path};
pub use prepared::PreparedTargets;
pub use tiles::Format;

use crate::cosine_top_k::CosineTopK;
use crate::error::{KernelError, Result};
use crate::workspace::Workspace;
use bound::RowBound;
use cuda_um::{Device, DeviceBuffer};
use modules::{Modules, Support};
use parking_lot::Mutex;
use std::sync::Arc;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// The rows' cosine.
    Cosine,
    /// The sum of the elements' products.
    InnerProduct,
}

/// Exact top-k of each query, loaded on a device.
///
/// The filter multiplies rows in 16 bits on tensor cores and keeps the few targets that may belong to a list, by a proved bound on its
/// error. These are scored in single precision in the order of operations of [`CosineTopK`], so that lists are equal to its lists
/// to the bit. Queries for which too many targets are left (duplicates, clusters, zero rows) go through its kernel; [`Self::counts`] says
/// how many did.
///
/// Without tensor cores of compute capability 8.0, for few targets, or with [`Filter::Off`] everything goes through that kernel;
/// each launch returns the [`Path`] that it took.
#[derive(Debug)]
pub struct ExactTopK {
    device: Device,
    basic: CosineTopK,
    support: std::result::Result<Support, String>,
    /// Loaded when they are needed first.
    modules: Mutex<Option<Arc<Modules>>>,
    room: Room,
    /// Targets of launches without prepared ones.
    fresh: Mutex<Option<PreparedTargets>>,
    sums: Mutex<DeviceBuffer<u64>>,
}

/// Device memory between the kernels of a launch.
#[derive(Debug)]
struct Room {
    query_norms: Workspace<f32>,
    query_tiles: Workspace<u16>,
    query_bounds: Workspace<RowBound>,
    query_specials: Workspace<u32>,
    best: Workspace<f32>,
    thresholds: Workspace<f32>,
    counts: Workspace<u32>,
    kept: Workspace<[u32; 2]>,
    given_up: Workspace<u32>,
    gathered: Workspace<f32>,
    gathered_norms: Workspace<f32>,
}

impl Room {
    fn new(device: &Device) -> Self {
        Self {
            query_norms: Workspace::new(device),
            query_tiles: Workspace::new(device),
            query_bounds: Workspace::new(device),
            query_specials: Workspace::new(device),
            best: Workspace::new(device),
            thresholds: Workspace::new(device),
            counts: Workspace::new(device),
            kept: Workspace::new(device),
            given_up: Workspace::new(device),
            gathered: Workspace::new(device),
            gathered_norms: Workspace::new(device),
        }
    }
}

/// What the filter did in all launches so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCounts {
    /// Queries that went through [`CosineTopK`]'s kernel after all.
    pub fallback_queries: u64,
    /// Targets that the filter kept.
    pub candidates: u64,
    /// Targets that were scored in single precision.
    pub rescored: u64,
}

impl SearchCounts {
    /// What was added since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            fallback_queries: self.fallback_queries - before.fallback_queries,
            candidates: self.candidates - before.candidates,
            rescored: self.rescored - before.rescored,
        }
    }
}

impl ExactTopK {
    /// Loads the kernel without a filter, and finds out which filter the device can run. Its kernels are loaded by the first launch that
    /// uses them: the driver compiles them, which takes seconds the first time, and keeps the result.
    ///
    /// # Errors
    /// The device refuses a module that it should take, or memory is missing.
    pub fn load(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            basic: CosineTopK::load(device)?,
            support: Support::of(device)?,
            modules: Mutex::new(None),
            room: Room::new(device),
            fresh: Mutex::new(None),
            sums: Mutex::new(DeviceBuffer::zeroed(device, 3)?),
        })
    }

    /// The kernel without a filter.
    pub fn basic(&self) -> &CosineTopK {
        &self.basic
    }

    /// Which kernels filter on this device, or why none do.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn kernels(&self) -> std::result::Result<FilterKernels, &str> {
        match &self.support {
            Ok(support) => Ok(support.kernels),
            Err(reason) => Err(reason),
        }
    }

    /// The filter's kernels, loaded now if they are not yet.
    fn modules(&self) -> Result<Arc<Modules>> {
        let support = self
            .support
            .as_ref()
            .map_err(|reason| unsupported(reason.clone()))?;
        let mut modules = self.modules.lock();
        if let Some(modules) = &*modules {
            return Ok(Arc::clone(modules));
        }
        let loaded = Arc::new(Modules::load(&self.device, *support)?);
        Ok(Arc::clone(modules.insert(loaded)))
    }

    /// What the filter did in all launches so far. Waits for them.
    ///
    /// # Errors
    /// The copy fails.
    pub fn counts(&self) -> Result<SearchCounts> {
        let mut sums = [0; 3];
        self.sums.lock().copy_to_host(&mut sums)?;
        let [fallback_queries, candidates, rescored] = sums;
        Ok(SearchCounts {
            fallback_queries,
            candidates,
            rescored,
        })
    }
}

const NAME: &str = "exact_top_k";

fn unsupported(reason: String) -> KernelError {
    KernelError::Unsupported {
        kernel: NAME,
        reason,
    }
}
