//! A piece of prepared targets in pinned memory.

use super::bound::RowBound;
use super::prepared::PreparedTargets;
use super::tiles::{BLOCK, Format};
use crate::error::Result;
use cuda_um::{DeviceBuffer, DeviceCopy, PinnedBuffer, Stream};
use std::mem::MaybeUninit;

/// The buffers of [`PreparedTargets`], in pinned memory.
#[derive(Debug)]
pub(super) struct HostPiece {
    pub rows: usize,
    norms: Pinned<f32>,
    tiles: Pinned<u16>,
    scales: Pinned<f32>,
    bounds: Pinned<RowBound>,
    tile_bounds: Pinned<RowBound>,
    specials: PinnedBuffer<u32>,
}

type Pinned<T> = PinnedBuffer<MaybeUninit<T>>;
type OnDevice<T> = DeviceBuffer<MaybeUninit<T>>;

impl HostPiece {
    /// Enqueues the copy of prepared targets into new pinned memory.
    pub fn of(stream: &Stream, from: &PreparedTargets) -> Result<Self> {
        let PreparedTargets {
            rows,
            dim,
            metric: _,
            format,
            norms,
            tiles,
            scales,
            bounds,
            tile_bounds,
            specials,
        } = from;
        let padded = rows.next_multiple_of(BLOCK);
        let mut listed = PinnedBuffer::zeroed(&stream.device(), specials.len())?;
        stream.copy(specials, &mut listed)?;
        let scale_count = if *format == Format::Int8 { padded } else { 0 };
        let elements = super::tiles::room(padded, *dim, *format);
        Ok(Self {
            rows: *rows,
            norms: down(stream, norms, *rows)?,
            tiles: down(stream, tiles, elements)?,
            scales: down(stream, scales, scale_count)?,
            bounds: down(stream, bounds, padded)?,
            tile_bounds: down(stream, tile_bounds, padded / BLOCK)?,
            specials: listed,
        })
    }

    /// Enqueues the copy into the memory of prepared targets, which has room for at least as many rows.
    pub fn load(&self, stream: &Stream, to: &mut PreparedTargets) -> Result<()> {
        to.rows = self.rows;
        up(stream, &self.norms, &mut to.norms)?;
        up(stream, &self.tiles, &mut to.tiles)?;
        up(stream, &self.scales, &mut to.scales)?;
        up(stream, &self.bounds, &mut to.bounds)?;
        up(stream, &self.tile_bounds, &mut to.tile_bounds)?;
        Ok(stream.copy(&self.specials, &mut to.specials)?)
    }

    pub fn size_bytes(&self) -> usize {
        self.norms.size_bytes()
            + self.tiles.size_bytes()
            + self.scales.size_bytes()
            + self.bounds.size_bytes()
            + self.tile_bounds.size_bytes()
            + self.specials.size_bytes()
    }
}

fn down<T: DeviceCopy>(stream: &Stream, from: &OnDevice<T>, count: usize) -> Result<Pinned<T>> {
    let mut to = PinnedBuffer::uninit(&stream.device(), count)?;
    stream.copy_range(from, ..count, &mut to, 0)?;
    Ok(to)
}

fn up<T>(stream: &Stream, from: &Pinned<T>, to: &mut OnDevice<T>) -> Result<()> {
    Ok(stream.copy_range(from, .., to, 0)?)
}
