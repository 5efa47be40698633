//! The part of one device.

use super::Shard;
use crate::cosine_top_k::{TargetScalar, TopKShape};
use crate::error::Result;
use crate::exact::{ExactTopK, Filter, Format, PreparedTargets, SearchBuffers, SearchPath};
use crate::metric::Metric;
use cuda_um::{Device, DeviceBuffer, PinnedBuffer, Stream};

/// The search on one device, with a stream of its own.
#[derive(Debug)]
pub(super) struct Part {
    pub search: ExactTopK,
    stream: Stream,
}

/// The lists of a shard, on their way to the host.
pub(super) struct Lists {
    pub scores: PinnedBuffer<f32>,
    pub indices: PinnedBuffer<u32>,
    /// Places of a list.
    pub k: usize,
    /// The global index of the first row.
    pub first: u32,
}

impl Part {
    pub fn load(device: &Device) -> Result<Self> {
        Ok(Self {
            search: ExactTopK::load(device)?,
            stream: device.create_stream()?,
        })
    }

    pub fn device(&self) -> Device {
        self.stream.device()
    }

    pub fn prepare<T: TargetScalar>(
        &self,
        shard: &Shard<'_, T>,
        dim: usize,
        metric: Metric,
        format: Format,
    ) -> Result<Option<PreparedTargets>> {
        if shard.rows.is_empty() {
            return Ok(None);
        }
        let search = &self.search;
        let prepared = search.prepare(&self.stream, shard.rows, dim, metric, format);
        prepared.map(Some)
    }

    /// Enqueues the search of a shard, and the copy of its lists to the host; there are none if the shard has no rows.
    pub fn enqueue<T: TargetScalar, Q: TargetScalar>(
        &self,
        shape: TopKShape,
        metric: Metric,
        filter: Filter,
        queries: &[Q],
        shard: &Shard<'_, T>,
    ) -> Result<(SearchPath, Option<Lists>)> {
        let targets = shard.rows.len() / shape.dim;
        if targets == 0 || shape.queries == 0 {
            let reason = "no rows or no queries".to_owned();
            let filter = None;
            return Ok((SearchPath { filter, reason }, None));
        }
        let shape = TopKShape {
            targets,
            k: shape.k.min(targets),
            ..shape
        };
        let (stream, device) = (&self.stream, self.device());
        let places = shape.queries * shape.k;
        let queries = DeviceBuffer::from_slice(&device, queries)?;
        let mut scores = DeviceBuffer::zeroed(&device, places)?;
        let mut indices = DeviceBuffer::zeroed(&device, places)?;
        let buffers = SearchBuffers {
            queries: queries.as_view(),
            targets: shard.rows,
            scores: scores.as_view_mut(),
            indices: indices.as_view_mut(),
        };
        let search = &self.search;
        let path = match shard.prepared {
            Some(prepared) => search.launch_prepared(stream, shape, prepared, buffers),
            None => search.launch(stream, shape, metric, filter, buffers),
        }?;
        let mut lists = Lists {
            scores: PinnedBuffer::zeroed(&device, places)?,
            indices: PinnedBuffer::zeroed(&device, places)?,
            k: shape.k,
            // The number of all rows was checked.
            first: shard.first as u32,
        };
        stream.copy(&scores, &mut lists.scores)?;
        stream.copy(&indices, &mut lists.indices)?;
        Ok((path, Some(lists)))
    }
}
