//! The kernels of a search, for one batch of queries.

use super::bound::Bound;
use super::buffers::SearchBuffers;
use super::filter::MOST_SPECIAL;
use super::modules::{Modules, rescore_bytes};
use super::plan::Plan;
use super::prepared::{PreparedTargets, padded_queries};
use super::room::HeldRoom;
use super::tiles::{BLOCK, Format, GROUPS, TILE};
use crate::cosine_top_k::{Buffers, CosineTopK, Norms, TargetScalar, TopKShape, type_index, warps};
use crate::error::Result;
use crate::metric::Metric;
use cuda_um::{DeviceBuffer, LaunchConfig, Stream, constant, kernel::Arguments};

/// A batch of queries, and the inputs of its kernels.
///
/// Each launch has the arguments of its kernel in cuda/exact_top_k.cu and cuda/exact_filter*.cu. The [`HeldRoom`] was made for
/// at least as many queries; the prepared targets were made for all their rows; the buffers have the lengths of the shape.
pub(super) struct Batch<'a, T> {
    pub stream: &'a Stream,
    pub modules: &'a Modules,
    pub prepared: &'a PreparedTargets,
    pub plan: Plan,
    /// The shape of the batch.
    pub shape: TopKShape,
    pub multiprocessors: u32,
    pub buffers: SearchBuffers<'a, T>,
}

impl<T: TargetScalar> Batch<'_, T> {
    fn bound(&self) -> Bound {
        let PreparedTargets { metric, format, .. } = self.prepared;
        Bound::new(self.shape.dim, *metric, *format)
    }

    /// Tiles of a row.
    fn row_blocks(&self) -> u32 {
        self.shape
            .dim
            .div_ceil(self.prepared.format.tile_elements()) as u32
    }

    /// A block for each query.
    fn each_query(&self, shared_bytes: u32) -> LaunchConfig {
        LaunchConfig {
            grid: [self.shape.queries as u32, 1, 1],
            block: [256, 1, 1],
            shared_bytes,
        }
    }

    /// As many blocks as can run at once; each processes its share of the batch's products with `tiles` blocks of targets.
    fn persistent(&self, tiles: usize) -> LaunchConfig {
        let products = self.shape.queries.div_ceil(TILE) * tiles;
        LaunchConfig {
            grid: [(self.multiprocessors as usize).min(products) as u32, 1, 1],
            block: [self.modules.support.threads, 1, 1],
            shared_bytes: self.modules.support.filter_bytes(),
        }
    }

    /// Converts the queries to the filter's form.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub fn convert_queries(&self, room: &mut HeldRoom<'_>) -> Result<()> {
        let count = self.shape.queries;
        let kernel = &self.modules.prepare[0][self.prepared.format as usize];
        let arguments = (
            self.buffers.queries,
            &mut *room.norms,
            &mut *room.tiles,
            &mut *room.scales,
            &mut *room.bounds,
            &mut *room.specials,
            constant(0u64),
            constant(padded_queries(count) as u64),
            constant(count as u64),
            constant(self.shape.dim as u64),
            self.bound().grow,
            constant(u32::from(self.prepared.metric == Metric::Cosine)),
        );
        // SAFETY: see `Batch`; the tiles and bounds have room for whole tiles of queries.
        unsafe { kernel.launch(self.stream, warps(padded_queries(count)), arguments)? };
        Ok(())
    }

    /// Finds a threshold for each query from a sample of the targets.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub fn sample(&self, room: &mut HeldRoom<'_>) -> Result<()> {
        let Self { plan, prepared, .. } = self;
        let bound = self.bound();
        let sample = (
            &*room.tiles,
            &prepared.tiles,
            &*room.bounds,
            &prepared.bounds,
            &prepared.tile_bounds,
            &*room.scales,
            &prepared.scales,
            &mut *room.best,
            constant(self.shape.queries as u32),
            constant(plan.sampled as u32),
            constant(plan.period as i32),
            constant(self.row_blocks()),
            constant(bound.kappa),
            constant(bound.tiny),
            constant(self.modules.support.stages),
        );
        // SAFETY: see `Batch`; the plan's sampled blocks are blocks of the targets.
        unsafe {
            self.modules.sample[prepared.format as usize].launch(
                self.stream,
                self.persistent(plan.sampled),
                sample,
            )?;
        }
        self.thresholds(room)
    }

    /// In 8 bits thresholds are exact scores: the bound is larger.
    fn exact_thresholds(&self) -> bool {
        self.prepared.format == Format::Int8
    }

    /// A block for each query, with room for the scores of the best targets.
    fn each_best(&self) -> LaunchConfig {
        let most = if self.exact_thresholds() {
            self.shape.k
        } else {
            0
        };
        self.each_query(rescore_bytes(most))
    }

    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    fn thresholds(&self, room: &mut HeldRoom<'_>) -> Result<()> {
        let plan = &self.plan;
        let arguments = (
            self.buffers.queries,
            self.buffers.targets,
            &*room.norms,
            &self.prepared.norms,
            &*room.bounds,
            &*room.best,
            &mut *room.thresholds,
            &mut *room.counts,
            &mut *room.given_up,
            constant(self.shape.dim as u64),
            constant((plan.sampled * GROUPS) as u32),
            constant(plan.period as u32),
            constant(plan.capacity as u32),
            constant(self.shape.k as u32),
            constant(u32::from(self.exact_thresholds())),
        );
        let kernel = &self.modules.thresholds[type_index::<T>()];
        // SAFETY: see `Batch`; the sample's targets are targets, because others are special.
        unsafe { kernel.launch(self.stream, self.each_best(), arguments)? };
        Ok(())
    }

    /// Keeps the targets of each query that reach its threshold. If the plan says so, some blocks of targets go first, and their
    /// candidates tighten the thresholds.
    pub fn filter(&mut self, room: &mut HeldRoom<'_>, sums: &mut DeviceBuffer<u64>) -> Result<()> {
        let tiles = self.shape.targets.div_ceil(BLOCK);
        let period = self.plan.first_of;
        if period == 0 {
            return self.filter_tiles(room, tiles, 0);
        }
        let first = tiles.div_ceil(period);
        self.filter_tiles(room, first, period as i32)?;
        if tiles > first {
            self.tighten(room, sums)?;
            self.filter_tiles(room, tiles - first, -(period as i32))?;
        }
        Ok(())
    }

    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    fn filter_tiles(&self, room: &mut HeldRoom<'_>, tiles: usize, period: i32) -> Result<()> {
        let bound = self.bound();
        let mut arguments = Arguments::new();
        arguments.push(&*room.tiles);
        arguments.push(&self.prepared.tiles);
        arguments.push(&*room.bounds);
        arguments.push(&self.prepared.tile_bounds);
        arguments.push(&*room.scales);
        arguments.push(&self.prepared.scales);
        arguments.push(&mut *room.thresholds);
        arguments.push(&mut *room.counts);
        arguments.push(&mut *room.kept);
        arguments.push(constant(self.plan.capacity as u32));
        arguments.push(constant(self.shape.queries as u32));
        arguments.push(constant(self.shape.targets as u32));
        arguments.push(constant(tiles as u32));
        arguments.push(constant(period));
        arguments.push(constant(self.row_blocks()));
        arguments.push(constant(bound.kappa));
        arguments.push(constant(bound.tiny));
        arguments.push(constant(self.modules.support.stages));
        let kernel = &self.modules.filter[self.prepared.format as usize];
        // SAFETY: see `Batch`; with this period, the `tiles` blocks are blocks of the targets.
        unsafe { kernel.launch(self.stream, self.persistent(tiles), arguments)? };
        Ok(())
    }

    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    fn tighten(&mut self, room: &mut HeldRoom<'_>, sums: &mut DeviceBuffer<u64>) -> Result<()> {
        let config = self.each_best();
        let bound = self.bound();
        let mut arguments = Arguments::new();
        arguments.push(self.buffers.queries);
        arguments.push(self.buffers.targets);
        arguments.push(&*room.norms);
        arguments.push(&self.prepared.norms);
        arguments.push(&*room.bounds);
        arguments.push(&self.prepared.bounds);
        arguments.push(&mut *room.thresholds);
        arguments.push(&mut *room.counts);
        arguments.push(&mut *room.kept);
        arguments.push(sums);
        arguments.push(constant(self.shape.dim as u64));
        arguments.push(constant(self.plan.capacity as u32));
        arguments.push(constant(self.shape.k as u32));
        arguments.push(constant(u32::from(self.exact_thresholds())));
        arguments.push(constant(bound.kappa));
        arguments.push(constant(bound.tiny));
        let kernel = &self.modules.tighten[type_index::<T>()];
        // SAFETY: see `Batch`; candidates are valid targets, because the filter compares with the number of targets.
        unsafe { kernel.launch(self.stream, config, arguments)? };
        Ok(())
    }

    /// Scores the candidates in single precision, and writes the lists.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub fn rescore(&mut self, room: &mut HeldRoom<'_>, sums: &mut DeviceBuffer<u64>) -> Result<()> {
        let config = self.each_query(rescore_bytes(self.plan.survivors));
        let bound = self.bound();
        let Self { prepared, plan, .. } = self;
        let limits = plan.capacity as u64
            | (plan.survivors as u64) << 20
            | (MOST_SPECIAL as u64) << 36
            | (self.shape.k as u64) << 48;
        let mut arguments = Arguments::new();
        arguments.push(self.buffers.queries);
        arguments.push(self.buffers.targets);
        arguments.push(&*room.norms);
        arguments.push(&prepared.norms);
        arguments.push(&*room.bounds);
        arguments.push(&prepared.bounds);
        arguments.push(&*room.counts);
        arguments.push(&mut *room.kept);
        arguments.push(&prepared.specials);
        arguments.push(&mut *room.given_up);
        arguments.push(sums);
        arguments.push(self.buffers.scores.slice_mut(..)?);
        arguments.push(self.buffers.indices.slice_mut(..)?);
        arguments.push(constant(self.shape.dim as u64));
        arguments.push(constant(limits));
        arguments.push(constant(bound.kappa));
        arguments.push(constant(bound.tiny));
        let kernel = &self.modules.rescore[type_index::<T>()];
        // SAFETY: as for `tighten`; special rows are rows of the targets.
        unsafe { kernel.launch(self.stream, config, arguments)? };
        Ok(())
    }

    /// Searches without a filter for the queries with too many candidates.
    #[allow(unsafe_code, reason = "launches kernels of this crate")]
    pub fn fall_back(self, basic: &CosineTopK, room: &mut HeldRoom<'_>) -> Result<()> {
        let gather = (
            self.buffers.queries,
            &*room.norms,
            &*room.given_up,
            &mut *room.gathered,
            &mut *room.gathered_norms,
            constant(self.shape.dim as u64),
        );
        let kernel = &self.modules.gather;
        // SAFETY: see `Batch`; each query is given up at most once.
        unsafe { kernel.launch(self.stream, self.each_query(0), gather)? };
        let buffers = Buffers {
            queries: &*room.gathered,
            targets: self.buffers.targets,
            scores: self.buffers.scores,
            indices: self.buffers.indices,
        };
        let norms = Norms {
            queries: &*room.gathered_norms,
            targets: &self.prepared.norms,
        };
        let some = (&self.modules.some, &*room.given_up);
        basic.launch_some::<T>(self.stream, self.shape, some, buffers, norms)
    }
}
