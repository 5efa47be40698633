//! The part of one device.

use super::Shard;
use super::merge::List;
use crate::cosine_top_k::{TargetScalar, TopKShape};
use crate::error::{Result, SearchError};
use crate::exact::{ExactTopK, Filter, Format, PreparedTargets, SearchBuffers, SearchPath};
use crate::metric::Metric;
use cuda_um::{Device, DeviceBuffer, HostRef, PinnedBuffer, Stream};

/// Scores and indices on their way to the host.
type Lists = (PinnedBuffer<f32>, PinnedBuffer<u32>);

/// The search on one device, with a stream of its own.
#[derive(Debug)]
pub(super) struct Part {
    number: usize,
    pub search: ExactTopK,
    stream: Stream,
}

/// A search that was enqueued, with the lists in pinned memory; `None`: the shard has no rows.
pub(super) struct Enqueued {
    pub path: SearchPath,
    lists: Option<Lists>,
    /// Places of a list.
    k: usize,
    /// The global index of the first row.
    first: u32,
}

/// The lists of a search that is done.
pub(super) struct Found<'a> {
    scores: HostRef<'a, f32>,
    indices: HostRef<'a, u32>,
    k: usize,
    first: u32,
}

impl Part {
    pub fn load(number: usize, device: &Device) -> Result<Self> {
        let load = || {
            Ok(Self {
                number,
                search: ExactTopK::load(device)?,
                stream: device.create_stream()?,
            })
        };
        load().map_err(|cause| failed(number, device, cause))
    }

    /// An error of this part.
    pub fn failed(&self, cause: SearchError) -> SearchError {
        failed(self.number, &self.stream.device(), cause)
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
        let prepared = self
            .search
            .prepare(&self.stream, shard.rows, dim, metric, format);
        prepared.map(Some).map_err(|cause| self.failed(cause))
    }

    /// Enqueues the search of a shard, and the copy of its lists to the host.
    pub fn enqueue<T: TargetScalar, Q: TargetScalar>(
        &self,
        shape: TopKShape,
        metric: Metric,
        filter: Filter,
        queries: &[Q],
        shard: &Shard<'_, T>,
    ) -> Result<Enqueued> {
        let targets = shard.rows.len() / shape.dim;
        let shape = TopKShape {
            targets,
            k: shape.k.min(targets),
            ..shape
        };
        if targets == 0 || shape.queries == 0 {
            return Ok(Enqueued {
                path: SearchPath {
                    filter: None,
                    reason: "no rows or no queries".to_owned(),
                },
                lists: None,
                k: 0,
                first: 0,
            });
        }
        let searched = self.launch(shape, metric, filter, queries, shard);
        let (path, lists) = searched.map_err(|cause| self.failed(cause))?;
        Ok(Enqueued {
            path,
            lists: Some(lists),
            k: shape.k,
            // The number of all rows was checked.
            first: shard.first as u32,
        })
    }

    fn launch<T: TargetScalar, Q: TargetScalar>(
        &self,
        shape: TopKShape,
        metric: Metric,
        filter: Filter,
        queries: &[Q],
        shard: &Shard<'_, T>,
    ) -> Result<(SearchPath, Lists)> {
        let (stream, device) = (&self.stream, self.stream.device());
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
        let path = match shard.prepared {
            Some(prepared) => self
                .search
                .launch_prepared(stream, shape, prepared, buffers),
            None => self.search.launch(stream, shape, metric, filter, buffers),
        }?;
        let mut on_host = (
            PinnedBuffer::zeroed(&device, places)?,
            PinnedBuffer::zeroed(&device, places)?,
        );
        stream.copy(&scores, &mut on_host.0)?;
        stream.copy(&indices, &mut on_host.1)?;
        Ok((path, on_host))
    }
}

impl Enqueued {
    /// Waits for the lists.
    pub fn wait(&self) -> Result<Option<Found<'_>>> {
        let Some((scores, indices)) = &self.lists else {
            return Ok(None);
        };
        Ok(Some(Found {
            scores: scores.host()?,
            indices: indices.host()?,
            k: self.k,
            first: self.first,
        }))
    }
}

impl Found<'_> {
    pub fn list(&self) -> List<'_> {
        List {
            scores: bytemuck::cast_slice(&self.scores),
            indices: bytemuck::cast_slice(&self.indices),
            k: self.k,
            first: self.first,
        }
    }
}

fn failed(shard: usize, device: &Device, cause: SearchError) -> SearchError {
    SearchError::Shard {
        shard,
        device: device.ordinal(),
        cause: Box::new(cause),
    }
}
