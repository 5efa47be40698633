//! The targets of a case in each kind of memory, and prepared.

use super::task::DIM;
use crate::Bench;
use anyhow::Result;
use cuda_um::{DeviceBuffer, PinnedBuffer, UnifiedBuffer};
use half::f16;
use std::cell::RefCell;
use um_search::{ExactTopK, Format, Metric, PiecewiseTargets, PreparedTargets};

/// The largest targets in unified memory, in bytes.
const MOST_UNIFIED: usize = 900 << 20;
/// From these targets on, searches with rows in pinned memory are measured, in bytes.
const LEAST_PINNED: usize = 256 << 20;

/// The targets of a case. What a machine cannot do has its reason.
pub(super) struct Targets {
    pub device: DeviceBuffer<f32>,
    pub half: DeviceBuffer<f16>,
    pub unified: Option<UnifiedBuffer<f32>>,
    pub pinned: Option<PinnedBuffer<f32>>,
    pub prepared: Result<PreparedTargets, String>,
    pub prepared_int8: Option<PreparedTargets>,
    pub unified_prepared: Option<PreparedTargets>,
    /// With a limit of a third of the bytes of their rows, so that the copy is in pieces.
    pub pieces: Option<RefCell<PiecewiseTargets>>,
}

impl Targets {
    pub fn new(bench: &Bench, search: &ExactTopK, vectors: &[f32]) -> Result<Self> {
        let (device, stream) = (&bench.device, &bench.stream);
        let bytes = size_of_val(vectors);
        let on_device = DeviceBuffer::from_slice(device, vectors)?;
        let narrow: Vec<f16> = vectors
            .iter()
            .map(|number| f16::from_f32(*number))
            .collect();
        let prepare = |rows, format| search.prepare(stream, rows, DIM, Metric::Cosine, format);
        let prepared = prepare(on_device.view(..)?, Format::F16).map_err(|error| error.to_string());
        let prepared_int8 = match &prepared {
            Ok(_) => Some(prepare(on_device.view(..)?, Format::Int8)?),
            Err(_) => None,
        };
        let unified = if bytes <= MOST_UNIFIED {
            let unified = UnifiedBuffer::from_slice(device, vectors)?;
            unified.prefetch_on(device, stream)?.require()?;
            Some(unified)
        } else {
            None
        };
        let unified_prepared = match (&unified, &prepared) {
            (Some(unified), Ok(_)) => Some(prepare(unified.view(..)?, Format::F16)?),
            _ => None,
        };
        let pinned = if bytes >= LEAST_PINNED {
            Some(PinnedBuffer::from_slice(device, vectors)?)
        } else {
            None
        };
        let pieces = match (&pinned, &prepared) {
            (Some(pinned), Ok(_)) => {
                let (rows, limit) = (pinned.view(..)?, bytes / 3);
                let (metric, format) = (Metric::Cosine, Format::F16);
                let pieces =
                    search.prepare_within(stream, rows, DIM, metric, format, limit, drop)?;
                Some(RefCell::new(pieces))
            }
            _ => None,
        };
        Ok(Self {
            device: on_device,
            half: DeviceBuffer::from_slice(device, &narrow)?,
            unified,
            pinned,
            prepared,
            prepared_int8,
            unified_prepared,
            pieces,
        })
    }
}
