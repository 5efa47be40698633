//! Exact top-k through a filter on tensor cores: lists bit-identical to those of [`CosineTopK`], several times as fast.
//!
//! `exact-search.md` describes the method and proves that no result is lost.

mod attempt;
mod attempts;
mod batch;
pub(crate) mod bound;
mod budget;
mod buffers;
mod choose;
mod filter;
mod host_piece;
mod launch;
mod launch_within;
mod modules;
mod piecewise;
mod plan;
mod prepare;
mod prepared;
mod room;
mod self_test;
mod sums;
mod tiles;

pub use buffers::SearchBuffers;
pub use choose::SearchPath;
pub use filter::Filter;
pub use modules::FilterKernels;
pub use piecewise::PiecewiseTargets;
pub use prepared::PreparedTargets;
pub use tiles::Format;

use crate::cosine_top_k::CosineTopK;
use crate::error::{Result, SearchError};
use crate::workspace::Spare;
use attempts::Attempts;
use cuda_um::Device;
use modules::{Modules, Support};
use room::Room;
use std::sync::OnceLock;
use sums::Sums;

/// Exact top-k of each query, loaded on a device.
///
/// The filter multiplies rows in 16 or 8 bits on tensor cores. A proved bound on its error selects the few targets that may belong
/// to a list. Only these are scored in single precision, in the order of operations of [`CosineTopK`], so that the lists are
/// bit-identical to its lists. Queries with too many remaining targets (duplicates, clusters, zero rows) go through the kernel
/// of [`CosineTopK`]; [`Self::counts`] returns their number.
///
/// Without tensor cores of compute capability 8.0, for few targets, or with [`Filter::Off`], all queries go through that
/// kernel. Each launch returns the [`SearchPath`] that it took.
///
/// Launches on several threads do not wait for each other: each that finds the memory of the others in use allocates its own, of which one is
/// kept. A `tracing` subscriber that is called during a launch may use the same value.
#[derive(Debug)]
pub struct ExactTopK {
    device: Device,
    basic: CosineTopK,
    support: std::result::Result<Support, String>,
    /// Loaded at their first use.
    modules: OnceLock<Modules>,
    /// The reason, if the device failed the test of its tensor cores.
    failure: OnceLock<String>,
    room: Room,
    /// The converted targets of launches without prepared ones.
    fresh: Spare<PreparedTargets>,
    sums: Sums,
    /// Those of [`Filter::Auto`] in 8 bits, which reads them after each batch.
    attempted: Sums,
    attempts: Attempts,
}

/// Sums over all launches so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchCounts {
    /// Queries that went through [`CosineTopK`]'s kernel.
    pub fallback_queries: u64,
    /// Queries with too many candidates in 8 bits, which [`Filter::Auto`] filtered again in half precision.
    pub refiltered_queries: u64,
    /// Targets that the filter kept.
    pub candidates: u64,
    /// Targets that were scored in single precision.
    pub rescored: u64,
}

impl SearchCounts {
    /// The difference to `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            fallback_queries: self.fallback_queries - before.fallback_queries,
            refiltered_queries: self.refiltered_queries - before.refiltered_queries,
            candidates: self.candidates - before.candidates,
            rescored: self.rescored - before.rescored,
        }
    }
}

impl ExactTopK {
    /// Loads the kernel without a filter, and selects the filter that the device can run. The filter's kernels are loaded by
    /// the first launch that uses them: the driver compiles them, which takes seconds the first time, and caches the result.
    /// That launch also tests if the sums of the tensor cores are as exact as the bound assumes; otherwise no filter is used.
    ///
    /// # Errors
    /// The device refuses a module that it should support, or memory is missing.
    pub fn load(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            basic: CosineTopK::load(device)?,
            support: Support::of(device)?,
            modules: OnceLock::new(),
            failure: OnceLock::new(),
            room: Room::new(device),
            fresh: Spare::new(),
            sums: Sums::new(device),
            attempted: Sums::new(device),
            attempts: Attempts::default(),
        })
    }

    /// The kernel without a filter.
    pub fn basic(&self) -> &CosineTopK {
        &self.basic
    }

    /// The filter kernels for this device. The first launch that uses them tests the tensor cores.
    ///
    /// # Errors
    /// The reason, as text, if the device has none, or failed the test.
    pub fn kernels(&self) -> std::result::Result<FilterKernels, &str> {
        if let Some(failure) = self.failure.get() {
            return Err(failure);
        }
        match &self.support {
            Ok(support) => Ok(support.kernels),
            Err(reason) => Err(reason),
        }
    }

    /// The filter's kernels; loads and tests them if necessary. No capture has a filter: the host reads the results of the test, and the memory
    /// of the searches belongs to no graph.
    fn modules(&self) -> Result<&Modules> {
        if cuda_um::graph::is_capturing() {
            return Err(unsupported(IN_CAPTURE.to_owned()));
        }
        let support = self
            .support
            .as_ref()
            .map_err(|reason| unsupported(reason.clone()))?;
        if let Some(modules) = self.modules.get() {
            return Ok(modules);
        }
        if let Err(reason) = self.kernels() {
            return Err(unsupported(reason.to_owned()));
        }
        // Not inside of a lock, because it sends events: two threads may both load them.
        let loaded = Modules::load(&self.device, *support)?;
        if let Some(failure) = self_test::failure(&self.device, &loaded)? {
            let failure = self.failure.get_or_init(|| failure);
            return Err(unsupported(failure.clone()));
        }
        Ok(self.modules.get_or_init(|| loaded))
    }

    /// The sums over all launches that have returned. Waits for them. While other threads launch, some may be missing, which a later call has.
    ///
    /// # Errors
    /// The copy fails.
    pub fn counts(&self) -> Result<SearchCounts> {
        let (sums, attempted) = (self.sums.total()?, self.attempted.total()?);
        let [fallback_queries, candidates, rescored] =
            std::array::from_fn(|at| sums.counts[at] + attempted.counts[at]);
        Ok(SearchCounts {
            fallback_queries: fallback_queries - attempted.again,
            refiltered_queries: attempted.again,
            candidates,
            rescored,
        })
    }
}

const NAME: &str = "exact_top_k";

/// Why a capture has no filter.
const IN_CAPTURE: &str = "a filter in the capture of a graph: capture a search with `Filter::Auto` or `Filter::Off`, of an `ExactTopK` that is loaded in the capture";

fn unsupported(reason: String) -> SearchError {
    SearchError::Unsupported {
        kernel: NAME,
        reason,
    }
}
