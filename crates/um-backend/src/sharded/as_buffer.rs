//! All shards as one buffer.

use std::any::Any;
use std::ops::Range;

use cuda_um::{Advice, Device, HintOutcome, Location, Stream, range};

use super::parts::{outcome, run};
use super::{Shard, Sharded, no_rows};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};
use crate::transfer;

impl<T: Element> Sharded<T> {
    /// Gives a hint to each shard that has a part of the range.
    fn hint(
        &self,
        part: Range<usize>,
        give: impl Fn(&dyn Buffer<T>, Range<usize>) -> Result<HintOutcome>,
    ) -> Result<HintOutcome> {
        let part = range::check(part, self.len())?;
        outcome(self.parts(part).into_iter().map(|part| {
            let shard = &self.shards[part.number];
            give(&*shard.buffer, part.inside).map_err(|cause| shard.failed(part.number, cause))
        }))
    }
}

/// Its memory is opaque, because no single view has it: [`Sharded::shard`] has the memory of each device.
impl<T: Element> Buffer<T> for Sharded<T> {
    fn len(&self) -> usize {
        self.rows() * self.row_len
    }

    /// `None`, because it has several: [`Sharded::backend`].
    fn device(&self) -> Option<&Device> {
        None
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        BufferMemory::Opaque
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        BufferMemoryMut::Opaque
    }

    /// Allocates whole rows of zeros over the same devices, with the same shares. The error for a part of a row is
    /// [`InvalidArgument`](crate::CudaError::InvalidArgument).
    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        range::size_bytes::<T>(len)?;
        if !len.is_multiple_of(self.row_len) {
            return Err(no_rows(len, self.row_len));
        }
        let backends: Vec<_> = self.shards.iter().map(|s| s.backend.clone()).collect();
        let rows = len / self.row_len;
        let clone = Self::with_weights(
            &backends,
            self.kind,
            rows,
            self.row_len,
            self.weights.clone(),
        )?;
        Ok(Box::new(clone))
    }

    fn try_clone(&self) -> Result<Box<dyn Buffer<T>>> {
        let clone = |(number, shard): (usize, &Shard<T>)| {
            let buffer = shard.buffer.try_clone();
            Ok(Shard {
                backend: shard.backend.clone(),
                rows: shard.rows.clone(),
                buffer: buffer.map_err(|cause| shard.failed(number, cause))?,
            })
        };
        Ok(Box::new(Self {
            shards: self
                .shards
                .iter()
                .enumerate()
                .map(clone)
                .collect::<Result<_>>()?,
            kind: self.kind,
            row_len: self.row_len,
            weights: self.weights.clone(),
            name: self.name.clone(),
        }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn set_name(&mut self, name: &str) {
        self.name = Some(name.to_owned());
        for (number, shard) in self.shards.iter_mut().enumerate() {
            shard.buffer.set_name(&format!("{name}, shard {number}"));
        }
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<()> {
        let range = range::check_at(offset, source.len(), self.len())?;
        let mut parts = self.parts(range).into_iter().peekable();
        let mut jobs = Vec::new();
        for (number, shard) in self.shards.iter_mut().enumerate() {
            if let Some(part) = parts.next_if(|part| part.number == number) {
                jobs.push((shard, part));
            }
        }
        run(jobs, size_of_val(source), |(shard, part)| {
            let elements = &source[part.outside];
            let copied = shard.buffer.copy_from_host_at(part.inside.start, elements);
            copied.map_err(|cause| shard.failed(part.number, cause))
        })
    }

    fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<()> {
        let range = range::check_at(offset, target.len(), self.len())?;
        let (mut jobs, bytes) = (Vec::new(), size_of_val(target));
        let mut rest = target;
        for part in self.parts(range) {
            let elements = rest.split_off_mut(..part.inside.len());
            jobs.push((elements.unwrap_or_default(), part));
        }
        run(jobs, bytes, |(elements, part)| {
            let shard = &self.shards[part.number];
            let copied = shard.buffer.copy_to_host_at(part.inside.start, elements);
            copied.map_err(|cause| shard.failed(part.number, cause))
        })
    }

    fn fill(&mut self, value: T) -> Result<()> {
        self.fill_range(0..self.len(), value)
    }

    fn fill_range(&mut self, part: Range<usize>, value: T) -> Result<()> {
        let part = range::check(part, self.len())?;
        self.each_part(part, |shard, part| {
            shard.buffer.fill_range(part.inside, value)
        })
    }

    /// On the streams of the shards' devices: `stream` is of one device.
    fn fill_on(&mut self, value: T, _stream: &Stream) -> Result<()> {
        self.fill(value)
    }

    /// Copies from device to device if the source is a buffer of CUDA or sharded.
    fn copy_from_buffer_at(
        &mut self,
        offset: usize,
        source: &dyn Buffer<T>,
        from: Range<usize>,
    ) -> Result<()> {
        let to = transfer::ranges(offset, self.len(), &from, source.len())?;
        if let BufferMemory::Host(elements) = source.memory() {
            let from = range::check(from, elements.len())?;
            return self.copy_from_host_at(offset, &elements[from]);
        }
        let sharded = source.as_any().downcast_ref::<Self>();
        self.each_part(to, |shard, part| {
            let (target, mut at) = (&mut shard.buffer, part.inside.start);
            let first = from.start + part.outside.start;
            let range = first..first + part.outside.len();
            let Some(sharded) = sharded else {
                return target.copy_from_buffer_at(at, source, range);
            };
            for piece in sharded.parts(range) {
                let source = &*sharded.shards[piece.number].buffer;
                target.copy_from_buffer_at(at, source, piece.inside)?;
                at += piece.outside.len();
            }
            Ok(())
        })
    }

    /// On the streams of the shards' devices: `stream` is of one device.
    fn copy_from_buffer_on(&mut self, source: &dyn Buffer<T>, _stream: &Stream) -> Result<()> {
        range::same_length("copy_from_buffer_on", self.len(), source.len())?;
        self.copy_from_buffer_at(0, source, 0..source.len())
    }

    fn prefetch_range(&self, part: Range<usize>, location: Location) -> Result<HintOutcome> {
        self.hint(part, |shard, part| shard.prefetch_range(part, location))
    }

    fn prefetch_range_on(
        &self,
        part: Range<usize>,
        location: Location,
        stream: &Stream,
    ) -> Result<HintOutcome> {
        self.hint(part, |shard, part| {
            shard.prefetch_range_on(part, location, stream)
        })
    }

    fn advise_range(&self, part: Range<usize>, advice: Advice) -> Result<HintOutcome> {
        self.hint(part, |shard, part| shard.advise_range(part, advice))
    }
}
