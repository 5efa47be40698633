//! Searches within a limit of device memory.

use super::buffers::SearchBuffers;
use super::choose::Path;
use super::launch::path;
use super::modules::Modules;
use super::piecewise::PiecewiseTargets;
use super::{ExactTopK, NAME, unsupported};
use crate::cosine_top_k::{TargetScalar, TopKShape};
use crate::error::{Result, length};
use cuda_um::{DeviceBuffer, LaunchConfig, Stream};

impl ExactTopK {
    /// Searches as [`launch_prepared`](Self::launch_prepared) does, with targets from
    /// [`prepare_within`](Self::prepare_within), within their limit of device memory. `targets` must still be their exact rows.
    /// Memory that this [`ExactTopK`] keeps from earlier launches with other targets is not counted. If the targets are in
    /// several pieces, all queries search one piece before the next, so that each is copied once; the lists of the pieces are
    /// merged. `progress` gets the number of targets that all queries have searched.
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream. With several pieces this
    /// waits for all but the last, to report them.
    ///
    /// # Errors
    /// The errors of [`launch_prepared`](Self::launch_prepared), or the limit is too small for one query; the error states the
    /// least number.
    pub fn launch_within<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        shape: TopKShape,
        prepared: &mut PiecewiseTargets,
        mut buffers: SearchBuffers<'_, T, Q>,
        mut progress: impl FnMut(usize),
    ) -> Result<Path> {
        buffers.check(shape)?;
        length(NAME, "prepared targets", shape.targets, prepared.rows)?;
        length(NAME, "a prepared target", shape.dim, prepared.dim)?;
        let slot = &prepared.slots[0];
        let (kernels, format, _) = self
            .choose(slot.format.filter(), slot.metric, shape)
            .map_err(unsupported)?;
        let path = path(kernels, format, "prepared targets");
        if shape.queries == 0 {
            return Ok(path);
        }
        let modules = self.modules()?;
        let multiprocessors = self.device.capabilities().multiprocessors as usize;
        let held = prepared.device_bytes();
        let targets = prepared
            .pieces
            .first()
            .map_or(shape.targets, |piece| piece.rows);
        let piece = TopKShape { targets, ..shape };
        let batch = prepared.budget.batch(piece, held, multiprocessors)?;
        if prepared.pieces.is_empty() {
            for first in (0..shape.queries).step_by(batch) {
                let queries = batch.min(shape.queries - first);
                let part = TopKShape { queries, ..shape };
                let buffers = buffers.batch(first, part)?;
                self.filtered(stream, &modules, part, &prepared.slots[0], buffers)?;
            }
            progress(shape.targets);
            return Ok(path);
        }
        prepared.make_lists(&self.device, batch * shape.k)?;
        let (mut first, mut searched) = (0, None);
        for piece in 0..prepared.pieces.len() {
            let rows = prepared.pieces[piece].rows;
            let slot = &mut prepared.slots[piece % 2];
            prepared.pieces[piece].load(&prepared.copies, slot)?;
            self.search_piece(
                stream,
                &modules,
                (shape, batch),
                (piece, first),
                prepared,
                &mut buffers,
            )?;
            // While this piece is searched, the host waits for the piece before it.
            if let Some((event, end)) = searched.replace((stream.record()?, first + rows)) {
                event.synchronize()?;
                progress(end);
            }
            first += rows;
        }
        progress(first);
        Ok(path)
    }

    /// Enqueues the search of one piece, which begins with target `first`, for all queries.
    fn search_piece<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        (shape, batch): (TopKShape, usize),
        (piece, first): (usize, usize),
        prepared: &mut PiecewiseTargets,
        buffers: &mut SearchBuffers<'_, T, Q>,
    ) -> Result<()> {
        let PiecewiseTargets {
            slots,
            scores,
            indices,
            ..
        } = prepared;
        let (Some(scores), Some(indices), slot) = (scores, indices, &slots[piece % 2]) else {
            unreachable!("the lists were made");
        };
        let targets = slot.rows;
        let k = shape.k.min(targets);
        for at in (0..shape.queries).step_by(batch) {
            let queries = batch.min(shape.queries - at);
            let whole = buffers.batch(at, TopKShape { queries, ..shape })?;
            let places = queries * k;
            let part = SearchBuffers {
                queries: whole.queries,
                targets: whole
                    .targets
                    .slice(first * shape.dim..(first + targets) * shape.dim)?,
                scores: scores.view_mut(..places)?,
                indices: indices.view_mut(..places)?,
            };
            let dim = shape.dim;
            let part_shape = TopKShape {
                queries,
                targets,
                dim,
                k,
            };
            self.filtered(stream, modules, part_shape, slot, part)?;
            merge(stream, modules, (scores, indices, k), whole, shape.k, first)?;
        }
        Ok(())
    }
}

/// Enqueues the merge of a piece's lists of `k` places into the lists of the queries.
#[allow(unsafe_code, reason = "launches kernels of this crate")]
fn merge<T, Q>(
    stream: &Stream,
    modules: &Modules,
    (scores, indices, k): (&DeviceBuffer<f32>, &DeviceBuffer<u32>, usize),
    into: SearchBuffers<'_, T, Q>,
    list: usize,
    first: usize,
) -> Result<()> {
    let config = LaunchConfig {
        grid: [(into.scores.len() / list) as u32, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 8 * (list + k) as u32,
    };
    let arguments = (
        scores,
        indices,
        into.scores,
        into.indices,
        k as u32,
        list as u32,
        first as u32,
    );
    // SAFETY: the arguments are those of the kernel in cuda/exact_top_k.cu; each query has lists of these lengths.
    unsafe { modules.merge.launch(stream, config, arguments)? };
    Ok(())
}

impl PiecewiseTargets {
    /// Room for the lists of a batch.
    fn make_lists(&mut self, device: &cuda_um::Device, places: usize) -> Result<()> {
        if self.scores.as_ref().is_none_or(|kept| kept.len() < places) {
            (self.scores, self.indices) = (None, None);
            self.scores = Some(DeviceBuffer::zeroed(device, places)?);
            self.indices = Some(DeviceBuffer::zeroed(device, places)?);
        }
        Ok(())
    }
}
