//! Exact search over shards: the rows are on several devices, of one machine or of several.

mod agree;
mod check;
mod gather;
mod merge;

use crate::cosine_top_k::{TargetScalar, TopKShape};
use crate::error::{Result, SearchError, length};
use crate::exact::{ExactTopK, Filter, Format, PreparedTargets, SearchBuffers, SearchPath};
use crate::metric::Metric;
use crate::world::World;
use cuda_um::{Device, DeviceBuffer, Stream, View, together};
use merge::List;
use std::borrow::Borrow;

const NAME: &str = "sharded_search";

/// The search of one device, with a stream of its own.
type Part = (ExactTopK, Stream);

/// Rows of the targets that one device searches.
#[derive(Debug, Clone, Copy)]
pub struct Shard<'a, T> {
    /// The global index of the first row.
    pub first: usize,
    /// The rows, row-major, in memory that kernels of the device can read. May be empty.
    pub rows: View<'a, T>,
    /// The same rows as [`ShardedSearch::prepare`] converted them.
    pub prepared: Option<&'a PreparedTargets>,
}

impl<'a, T> Shard<'a, T> {
    /// Rows whose first has this global index, for a search that converts them if its filter needs it.
    pub fn new(first: usize, rows: View<'a, T>) -> Self {
        Self {
            first,
            rows,
            prepared: None,
        }
    }
}

/// Exact top-k of each query over rows on several devices: [`ExactTopK`] on each, and a merge of the lists on the host.
///
/// The lists are those of one device with all rows, bit for bit, for any number of shards, any split and any order of them: the
/// highest score first, for equal scores the lower global index first; NaN and −∞ are in no list, and the places that are left have −∞ and
/// `u32::MAX`. Shards may be empty, and shorter than k.
///
/// With [`over`](Self::over) the shards of several processes are searched together: each rank of a [`World`] has some of the rows and
/// all queries, and gets all lists.
///
/// # Examples
/// ```no_run
/// use cuda_um::{DeviceBuffer, Runtime};
/// use um_search::{Filter, Metric, Shard, ShardedSearch, TopKShape};
///
/// let devices = Runtime::open()?.devices()?;
/// let search = ShardedSearch::load(&devices)?;
/// let (dim, each) = (768, 1 << 20);
/// let shape = TopKShape { queries: 2, targets: each * devices.len(), dim, k: 10 };
/// let rows = devices.iter().map(|device| DeviceBuffer::<f32>::zeroed(device, each * dim));
/// let rows = rows.collect::<cuda_um::Result<Vec<_>>>()?;
/// let shards = rows.iter().enumerate().map(|(number, rows)| Shard::new(number * each, rows.as_view()));
/// let shards: Vec<_> = shards.collect();
/// let (mut scores, mut indices) = (vec![0.0; 20], vec![0; 20]);
/// search.search(shape, Metric::Cosine, Filter::Auto, &[1.0f32; 2 * 768], &shards, &mut scores, &mut indices)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShardedSearch<W = ()> {
    parts: Vec<Part>,
    world: W,
}

impl ShardedSearch {
    /// Loads the kernels on each device, on all at the same time. A device that is named twice has two shards.
    ///
    /// # Errors
    /// There is no device; as for [`ExactTopK::load`], in a [`SearchError::Shard`].
    pub fn load(devices: impl IntoIterator<Item: Borrow<Device>>) -> Result<Self> {
        let devices = devices.into_iter().map(|device| device.borrow().clone());
        let devices: Vec<Device> = devices.collect();
        if devices.is_empty() {
            return Err(SearchError::Value {
                kernel: NAME,
                parameter: "the number of devices",
                found: 0,
                allowed: "at least 1".to_owned(),
            });
        }
        let jobs = devices.iter().map(|device| (device.clone(), device));
        let parts = on_each(jobs, |device| {
            Ok((ExactTopK::load(device)?, device.create_stream()?))
        })?;
        Ok(Self { parts, world: () })
    }
}

impl<W: World> ShardedSearch<W> {
    /// Searches together with the other ranks of a world from now on. Each rank calls [`search`](Self::search) with the same shape, metric
    /// and queries, and with its own shards.
    #[must_use]
    pub fn over<O: World>(self, world: O) -> ShardedSearch<O> {
        let parts = self.parts;
        ShardedSearch { parts, world }
    }

    /// The search of a device: its counts, and the kernels of its filter.
    ///
    /// # Panics
    /// There is no device with this number.
    pub fn exact(&self, shard: usize) -> &ExactTopK {
        &self.parts[shard].0
    }

    /// Converts the rows of each shard for repeated searches, on all devices at the same time; `None` for an empty shard. The results go into
    /// [`Shard::prepared`].
    ///
    /// # Ordering
    /// Enqueued on a stream of each device when this returns, after all earlier uses of the rows.
    ///
    /// # Errors
    /// Another number of shards than devices; as for [`ExactTopK::prepare`], in a [`SearchError::Shard`].
    pub fn prepare<T: TargetScalar>(
        &self,
        shards: &[Shard<'_, T>],
        dim: usize,
        metric: Metric,
        format: Format,
    ) -> Result<Vec<Option<PreparedTargets>>> {
        length(NAME, "the list of shards", self.parts.len(), shards.len())?;
        on_each(self.jobs(shards), |((search, stream), shard)| {
            let rows = Some(shard.rows).filter(|rows| !rows.is_empty());
            rows.map(|rows| search.prepare(stream, rows, dim, metric, format))
                .transpose()
        })
    }

    /// Finds the `k` targets with the highest score for each query, among the rows of all shards: shard `i` on device `i`. `shape.targets` is
    /// the number of all rows, of which each is in one shard of one rank. The rows of a shard begin at a multiple of four elements if `dim` is
    /// one, because the norms depend on it.
    ///
    /// # Ordering
    /// After all earlier uses of the rows. Done when this returns: `scores` and `indices`, `[queries, k]`, hold the lists, with global
    /// indices. Returns the path of each shard.
    ///
    /// With a world, collective: it returns when all ranks have called it, with the same lists on each. Threads that share a world search in
    /// the same order on all ranks.
    ///
    /// # Errors
    /// As for [`ExactTopK::launch`]; another number of shards than devices, rows that are missing or in two shards, shards that were prepared
    /// for another metric; [`SearchError::Shard`] for an error of one device. With a world, on every rank: [`SearchError::Disagreement`];
    /// [`SearchError::Rank`] for an error of another rank; [`SearchError::World`]. After an error the results have unspecified contents.
    #[allow(
        clippy::too_many_arguments,
        reason = "those of a launch, and the results"
    )]
    pub fn search<T: TargetScalar, Q: TargetScalar>(
        &self,
        shape: TopKShape,
        metric: Metric,
        filter: Filter,
        queries: &[Q],
        shards: &[Shard<'_, T>],
        scores: &mut [f32],
        indices: &mut [u32],
    ) -> Result<Vec<SearchPath>> {
        let lengths = (queries.len(), scores.len(), indices.len());
        let checked = check::shards(shape, metric, shards, self.parts.len(), lengths);
        let rows = |shard: &Shard<'_, T>| (shard.first, shard.rows.len() / shape.dim.max(1));
        let rows: Vec<_> = shards.iter().map(rows).collect();
        let (world, k): (&dyn World, _) = (&self.world, shape.k);
        let agreed = match world.size() {
            1 => checked.and_then(|()| check::rows(shape.targets, rows).map(|()| None)),
            _ => agree::agree::<T, Q>(world, shape, metric, queries, &rows, checked).map(Some),
        }?;
        let found = on_each(self.jobs(shards), |(part, shard)| {
            search_shard(part, shape, metric, filter, queries, shard)
        });
        let found = found.map(|found| found.into_iter().unzip());
        let searched = found.map(|(paths, lists): (_, Vec<_>)| {
            merge::merge(&lists, k, scores, indices);
            paths
        });
        match agreed {
            None => searched,
            Some(tag) => gather::gather(world, tag, k, searched, scores, indices),
        }
    }

    /// The devices, each with its part and shard.
    fn jobs<'j, 's, T>(
        &'j self,
        shards: &'j [Shard<'s, T>],
    ) -> impl Iterator<Item = (Device, (&'j Part, &'j Shard<'s, T>))> {
        let jobs = self.parts.iter().zip(shards);
        jobs.map(|(part, shard)| (part.1.device(), (part, shard)))
    }
}

/// Searches a shard. Returns its path, and its lists, which are empty if it has no rows.
fn search_shard<T: TargetScalar, Q: TargetScalar>(
    (search, stream): &Part,
    shape: TopKShape,
    metric: Metric,
    filter: Filter,
    queries: &[Q],
    shard: &Shard<'_, T>,
) -> Result<(SearchPath, List)> {
    let targets = shard.rows.len() / shape.dim;
    let k = shape.k.min(targets);
    let places = shape.queries * k;
    let (mut best, mut at) = (vec![0.0; places], vec![0; places]);
    let mut path = SearchPath {
        filter: None,
        reason: "no rows or no queries".to_owned(),
    };
    if places > 0 {
        let device = stream.device();
        let shape = TopKShape {
            targets,
            k,
            ..shape
        };
        let queries = DeviceBuffer::from_slice(&device, queries)?;
        let mut scores = DeviceBuffer::zeroed(&device, places)?;
        let mut indices = DeviceBuffer::zeroed(&device, places)?;
        let buffers = SearchBuffers {
            queries: queries.as_view(),
            targets: shard.rows,
            scores: scores.as_view_mut(),
            indices: indices.as_view_mut(),
        };
        path = match shard.prepared {
            Some(prepared) => search.launch_prepared(stream, shape, prepared, buffers),
            None => search.launch(stream, shape, metric, filter, buffers),
        }?;
        scores.copy_to_host(&mut best)?;
        indices.copy_to_host(&mut at)?;
    }
    // The number of all rows was checked.
    Ok((path, List::new(&best, &at, k, shard.first as u32)))
}

/// Runs a job for each device, each on a thread. Returns the first error.
fn on_each<J: Send, R: Send>(
    jobs: impl Iterator<Item = (Device, J)>,
    run: impl Fn(J) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let results = together(jobs.enumerate().collect(), |(shard, (device, job))| {
        Ok(run(job).map_err(|cause| SearchError::Shard {
            shard,
            device: device.ordinal(),
            cause: Box::new(cause),
        }))
    });
    results.into_iter().map(|result| result?).collect()
}
