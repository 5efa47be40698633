//! Searches within a limit of device memory.

use super::buffers::SearchBuffers;
use super::choose::SearchPath;
use super::launch::path;
use super::modules::Modules;
use super::piecewise::PiecewiseTargets;
use super::prepared::PreparedTargets;
use super::{ExactTopK, NAME, unsupported};
use crate::cosine_top_k::{TargetScalar, TopKShape};
use crate::error::{Result, length};
use cuda_um::{Device, DeviceBuffer, LaunchConfig, Stream, constant};

impl ExactTopK {
    /// Searches as [`launch_prepared`](Self::launch_prepared) does, with targets from
    /// [`prepare_within`](Self::prepare_within), within their limit of device memory. `targets` must still be their exact rows.
    /// Memory that this [`ExactTopK`] keeps from earlier launches with other targets is not counted. If the targets are in
    /// several pieces, all queries search one piece before the next, so that each is copied once; the lists of the pieces are
    /// merged. `progress` gets the number of targets that all queries have searched; its last call, with all targets, comes when
    /// the last piece is enqueued.
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
    ) -> Result<SearchPath> {
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
        let batch = prepared.batch(shape, multiprocessors)?;
        if prepared.pieces.is_empty() {
            self.search_whole(stream, modules, (shape, batch), &prepared.slots[0], buffers)?;
            progress(shape.targets);
            return Ok(path);
        }
        let (mut first, mut searched) = (0, None);
        for piece in 0..prepared.pieces.len() {
            let rows = prepared.pieces[piece].rows;
            let slot = &mut prepared.slots[piece % 2];
            prepared.pieces[piece].load(&prepared.copies, slot)?;
            self.search_piece(
                stream,
                modules,
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

    /// Enqueues the search of targets that are in one piece.
    fn search_whole<T: TargetScalar, Q: TargetScalar>(
        &self,
        stream: &Stream,
        modules: &Modules,
        (shape, batch): (TopKShape, usize),
        prepared: &PreparedTargets,
        mut buffers: SearchBuffers<'_, T, Q>,
    ) -> Result<()> {
        for first in (0..shape.queries).step_by(batch) {
            let queries = batch.min(shape.queries - first);
            let part = TopKShape { queries, ..shape };
            let buffers = buffers.batch(first, part)?;
            self.filtered(stream, modules, part, prepared, buffers)?;
        }
        Ok(())
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
        let (scores, indices) = make_lists(&mut prepared.lists, &self.device, batch * shape.k)?;
        let slot = &prepared.slots[piece % 2];
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
        constant(k as u32),
        constant(list as u32),
        constant(first as u32),
    );
    // SAFETY: the arguments are those of the kernel in cuda/exact_top_k.cu; each query has lists of these lengths.
    unsafe { modules.merge.launch(stream, config, arguments)? };
    Ok(())
}

/// Room for the lists of a batch.
fn make_lists<'a>(
    kept: &'a mut Option<(DeviceBuffer<f32>, DeviceBuffer<u32>)>,
    device: &Device,
    places: usize,
) -> Result<(&'a mut DeviceBuffer<f32>, &'a mut DeviceBuffer<u32>)> {
    if kept
        .as_ref()
        .is_none_or(|(scores, _)| scores.len() < places)
    {
        *kept = None;
        *kept = Some((
            DeviceBuffer::zeroed(device, places)?,
            DeviceBuffer::zeroed(device, places)?,
        ));
    }
    let (scores, indices) = kept.as_mut().expect("made above");
    Ok((scores, indices))
}
