//! Copies and memset.

use super::copy_params::copy_3d;
use super::guard::{entry_points, with_state, with_work_stream};
use super::pointer::{Array, Out};
use crate::engine::{Code, Core, Direction, NodeParams, Pitched, Plane, ThreadState};
use std::sync::Arc;

/// The default stream, which synchronous calls use.
const DEFAULT_STREAM: usize = 0;

/// Copies on a stream. The call waits for the copy if it is synchronous, or if it writes pageable memory.
fn copy(
    core: &Arc<Core>,
    stream: usize,
    to: usize,
    from: usize,
    bytes: usize,
    direction: Direction,
    synchronous: bool,
) -> Result<(), Code> {
    let current = ThreadState::with(core.id, |thread| thread.device);
    let (stream, mut checked, captured) = with_work_stream(core, stream, |state, stream| {
        let checked = state.check_copy(to, from, bytes, direction)?;
        state.check_reach(current, &checked)?;
        Ok((stream.clone(), checked, state.graphs.is_capturing(stream)?))
    })?;
    if synchronous {
        core.call_unsafe()?;
    } else if !captured {
        checked.stage();
    }
    let done = core
        .state
        .lock()
        .copy(core, &stream, checked, synchronous)?;
    done.map_or(Ok(()), |done| core.wait(&[done]))
}

/// A synchronous memset of `count` elements of `width` bytes.
pub(super) fn set_now(
    core: &Arc<Core>,
    to: usize,
    value: u32,
    width: usize,
    count: usize,
) -> Result<(), Code> {
    with_work_stream(core, DEFAULT_STREAM, |_, _| Ok(()))?;
    core.call_unsafe()?;
    let done = with_work_stream(core, DEFAULT_STREAM, |state, stream| {
        state.set(core, stream, to, value, width, count)
    })?;
    done.map_or(Ok(()), |done| core.wait(&[done]))
}

fn batch(
    core: &Arc<Core>,
    to: &Array<usize>,
    from: &Array<usize>,
    sizes: &Array<usize>,
    count: usize,
    attributes: usize,
    stream: usize,
) -> Result<(), (usize, Code)> {
    let whole = |code| (usize::MAX, code);
    // CUDA refuses the default streams, and a batch without attributes.
    if stream <= 2 || count == 0 || attributes == 0 {
        return Err(whole(Code::INVALID_VALUE));
    }
    let (to, from, sizes) = (
        to.to_vec(count).map_err(whole)?,
        from.to_vec(count).map_err(whole)?,
        sizes.to_vec(count).map_err(whole)?,
    );
    for (index, ((to, from), bytes)) in to.into_iter().zip(from).zip(sizes).enumerate() {
        if bytes == 0 {
            return Err((index, Code::INVALID_VALUE));
        }
        copy(core, stream, to, from, bytes, Direction::Default, false)
            .map_err(|code| (index, code))?;
    }
    Ok(())
}

/// The rows of a memset in two dimensions, each of which is a memset of its own here.
fn rows(width: usize, height: usize, pitch: usize) -> Result<std::ops::Range<usize>, Code> {
    match pitch >= width && pitch.checked_mul(height).is_some() {
        true => Ok(0..if width == 0 { 0 } else { height }),
        false => Err(Code::INVALID_PITCH_VALUE),
    }
}

/// A copy in two dimensions.
fn rectangle(
    (to, to_pitch): (usize, usize),
    (from, from_pitch): (usize, usize),
    (width, height): (usize, usize),
    direction: u32,
) -> Result<Pitched, Code> {
    let plane = |address, pitch| Plane {
        address,
        pitch,
        height,
    };
    if to_pitch < width || from_pitch < width {
        return Err(Code::INVALID_PITCH_VALUE);
    }
    Ok(Pitched {
        to: plane(to, to_pitch),
        from: plane(from, from_pitch),
        extent: [width, height, 1],
        direction: Direction::from_raw(direction)?,
    })
}

/// Copies rows: one node of a capture, otherwise one copy after the other. Without a stream the call waits for them.
pub(super) fn copy_rows(core: &Arc<Core>, stream: Option<usize>, all: Pitched) -> Result<(), Code> {
    if let Some(stream) = stream {
        let captured = with_work_stream(core, stream, |state, stream| {
            match state.graphs.is_capturing(stream)? {
                true => state
                    .capture_params(stream, NodeParams::Copy(all))
                    .map(|()| true),
                false => Ok(false),
            }
        })?;
        if captured {
            return Ok(());
        }
    }
    let (direction, on) = (all.direction, stream.unwrap_or(DEFAULT_STREAM));
    all.parts()?.into_iter().try_for_each(|(to, from, bytes)| {
        copy(core, on, to, from, bytes, direction, stream.is_none())
    })
}

entry_points! { Runtime;
    fn cudaMemcpy(core, to: usize, from: usize, bytes: usize, direction: u32) {
        copy(core, DEFAULT_STREAM, to, from, bytes, Direction::from_raw(direction)?, true)
    }

    fn cudaMemcpyAsync(core, to: usize, from: usize, bytes: usize, direction: u32, stream: usize) {
        copy(core, stream, to, from, bytes, Direction::from_raw(direction)?, false)
    }

    fn cudaMemcpy2D(core, to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, direction: u32) {
        copy_rows(core, None, rectangle((to, to_pitch), (from, from_pitch), (width, height), direction)?)
    }

    fn cudaMemcpy2DAsync(
        core, to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, direction: u32, stream: usize,
    ) {
        copy_rows(core, Some(stream), rectangle((to, to_pitch), (from, from_pitch), (width, height), direction)?)
    }

    fn cudaMemcpy3D(core, params: Out<u8>) { copy_rows(core, None, copy_3d(params)?) }

    fn cudaMemcpy3DAsync(core, params: Out<u8>, stream: usize) { copy_rows(core, Some(stream), copy_3d(params)?) }

    fn cudaMemset2D(core, to: usize, pitch: usize, value: i32, width: usize, height: usize) {
        rows(width, height, pitch)?.try_for_each(|row| bodies::cudaMemset(core, to + row * pitch, value, width))
    }

    fn cudaMemset2DAsync(core, to: usize, pitch: usize, value: i32, width: usize, height: usize, stream: usize) {
        rows(width, height, pitch)?.try_for_each(|row| bodies::cudaMemsetAsync(core, to + row * pitch, value, width, stream))
    }

    fn cudaMemcpyPeer(core, to: usize, to_device: i32, from: usize, from_device: i32, bytes: usize) {
        with_state(core, |state, _| {
            state.devices.ordinal(to_device)?;
            state.devices.ordinal(from_device)
        })?;
        copy(core, DEFAULT_STREAM, to, from, bytes, Direction::Peer, true)
    }

    fn cudaMemcpyPeerAsync(core, to: usize, to_device: i32, from: usize, from_device: i32, bytes: usize, stream: usize) {
        with_state(core, |state, _| {
            state.devices.ordinal(to_device)?;
            state.devices.ordinal(from_device)
        })?;
        copy(core, stream, to, from, bytes, Direction::Peer, false)
    }

    fn cudaMemcpyBatchAsync(
        core, to: Array<usize>, from: Array<usize>, sizes: Array<usize>, count: usize,
        attributes: Array<u64>, attribute_indices: Array<usize>, attribute_count: usize, failed: Out<usize>, stream: usize,
    ) {
        let attributes = if attributes.is_null() || attribute_indices.is_null() { 0 } else { attribute_count };
        batch(core, &to, &from, &sizes, count, attributes, stream).map_err(|(index, code)| {
            // The address for the index is optional.
            let _ = failed.put(index);
            code
        })
    }

    fn cudaMemcpyBatchAsync_13(
        core, to: Array<usize>, from: Array<usize>, sizes: Array<usize>, count: usize,
        attributes: Array<u64>, attribute_indices: Array<usize>, attribute_count: usize, stream: usize,
    ) as "cudaMemcpyBatchAsync" {
        let attributes = if attributes.is_null() || attribute_indices.is_null() { 0 } else { attribute_count };
        batch(core, &to, &from, &sizes, count, attributes, stream).map_err(|(_, code)| code)
    }

    fn cudaMemset(core, to: usize, value: i32, bytes: usize) {
        set_now(core, to, value as u32, 1, bytes)
    }

    fn cudaMemsetAsync(core, to: usize, value: i32, bytes: usize, stream: usize) {
        with_work_stream(core, stream, |state, stream| state.set(core, stream, to, value as u32, 1, bytes)).map(drop)
    }
}
