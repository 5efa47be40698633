//! The filter's kernels: selects those that a device can run, and loads them.

use super::tiles::Format;
use crate::cosine_top_k::{EachType, ListKernels, TYPES, each_type};
use crate::error::Result;
use cuda_um::{Device, Kernel, Module};

/// A stage of the filter's loads: tiles of 128 queries and of 256 targets.
const STAGE_BYTES: u32 = 3 * 128 * 64 * 2;
/// Limit on the shared memory that the filter's kernels declare.
const DECLARED_BYTES: u32 = 11 << 10;
/// Shared memory that the kernels for compute capability 8.0 declare.
const DECLARED_BYTES_80: u32 = 3 << 10;
/// Shared memory of the rescoring kernel: elements of 64 rows and of a query, and 12 bytes for each survivor.
const ROWS_BYTES: u32 = 65 * 132 * 4;

/// The filter's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterKernels {
    /// `mma.sync`, for compute capability 8.0 and newer.
    Sm80,
    /// `wgmma` and bulk copies, for compute capability 9.0.
    Sm90a,
}

impl FilterKernels {
    /// `sm_80` or `sm_90a`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm90a => "sm_90a",
        }
    }
}

/// Kernels for each format.
pub(super) type Formats = [Kernel; 3];

/// The kernels that a device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Support {
    pub kernels: FilterKernels,
    ptx: &'static str,
    pub threads: u32,
    pub stages: u32,
}

impl Support {
    /// The best kernels that the device can run, or the reason why it can run none.
    pub fn of(device: &Device) -> Result<std::result::Result<Self, String>> {
        let (major, minor) = device.capabilities().compute_capability;
        if major < 8 {
            return Ok(Err(format!(
                "compute capability {major}.{minor} has no tensor cores for it (8.0 is needed)"
            )));
        }
        let optin = most_shared_bytes(device);
        let stages = (optin.saturating_sub(DECLARED_BYTES_80) / STAGE_BYTES).min(4);
        if stages < 2 {
            return Ok(Err(format!(
                "a block has {optin} bytes of shared memory; two stages need more"
            )));
        }
        let driver = device.runtime().driver_version()?;
        // The simulator has no `wgmma`.
        let is_simulated = device.name().starts_with("Simulated ");
        let hopper = (major, minor) == (9, 0)
            && !is_simulated
            && driver.major >= 12
            && optin >= 4 * STAGE_BYTES + DECLARED_BYTES;
        Ok(Ok(if hopper {
            Self {
                kernels: FilterKernels::Sm90a,
                ptx: include_str!("../../ptx/exact_filter_90a.ptx"),
                threads: 384,
                stages: 4,
            }
        } else {
            Self {
                kernels: FilterKernels::Sm80,
                ptx: include_str!("../../ptx/exact_filter.ptx"),
                threads: 256,
                stages,
            }
        }))
    }

    /// Shared memory of a block of the filter.
    pub fn filter_bytes(self) -> u32 {
        self.stages * STAGE_BYTES
    }
}

fn most_shared_bytes(device: &Device) -> u32 {
    let capabilities = device.capabilities();
    capabilities
        .shared_bytes_per_block_optin
        .max(capabilities.shared_bytes_per_block)
}

#[derive(Debug)]
pub(super) struct Modules {
    pub support: Support,
    /// For each type of rows.
    pub prepare: [Formats; 3],
    pub sample: Formats,
    pub filter: Formats,
    pub tile_bounds: Kernel,
    pub thresholds: EachType,
    pub tighten: EachType,
    pub rescore: EachType,
    pub gather: Kernel,
    pub merge: Kernel,
    pub some: ListKernels,
}

impl Modules {
    pub fn load(device: &Device, support: Support) -> Result<Self> {
        let optin = most_shared_bytes(device);
        let formats = |module: &Module, name: &str| -> Result<Formats> {
            let [bf16, f16, int8] = [Format::Bf16, Format::F16, Format::Int8]
                .map(|format| module.kernel(&format!("{name}_{}", format.name())));
            Ok([bf16?, f16?, int8?])
        };
        let [sample, filter] = crate::load::load(device, support.ptx, |module: &Module| {
            Ok([
                formats(module, "exact_sample")?,
                formats(module, "exact_filter")?,
            ])
        })?;
        for kernel in sample.iter().chain(&filter) {
            kernel.allow_shared_bytes(support.filter_bytes())?;
        }
        let some = ListKernels::load_some(device)?;
        let ptx = include_str!("../../ptx/exact_prepare.ptx");
        let (prepare, tile_bounds) = crate::load::load(device, ptx, |module: &Module| {
            let [f32, f16, bf16] = TYPES.map(|of| formats(module, &format!("exact_prepare_{of}")));
            Ok(([f32?, f16?, bf16?], module.kernel("exact_tile_bounds")?))
        })?;
        let ptx = include_str!("../../ptx/exact_top_k.ptx");
        crate::load::load(device, ptx, |module: &Module| {
            let rescore = each_type(module, "exact_rescore")?;
            let tighten = each_type(module, "exact_tighten")?;
            let thresholds = each_type(module, "exact_thresholds")?;
            for kernel in rescore.iter().chain(&tighten).chain(&thresholds) {
                kernel
                    .allow_shared_bytes(rescore_bytes(super::filter::MOST_SURVIVORS).min(optin))?;
            }
            Ok(Self {
                support,
                prepare,
                sample,
                filter,
                tile_bounds,
                thresholds,
                tighten,
                rescore,
                gather: module.kernel("exact_gather")?,
                merge: module.kernel("exact_merge")?,
                some,
            })
        })
    }
}

/// Shared memory of a block that rescores up to `most` targets.
pub(super) fn rescore_bytes(most: usize) -> u32 {
    ROWS_BYTES + 12 * most as u32
}
