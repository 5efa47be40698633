//! Which bytes go to which buffer.

use std::ops::Range;
use std::sync::Arc;

use um_backend::cuda_um::buffer::Runs;

use crate::each::Flow;
use crate::error::Result;
use crate::info::{Cut, TensorInfo, whole};
use crate::options::LoadOptions;
use crate::weights::Opened;

/// Every tensor in a buffer that several share begins at a multiple of this.
const ALIGN: usize = 256;
/// Tensors below this size share a buffer with those after them.
const SMALL: usize = 1 << 20;
/// The largest shared buffer.
const MOST_SHARED: usize = 64 << 20;
/// The largest number of bytes that are allocated at a time.
const MOST_BATCH: usize = 256 << 20;
/// A batch with so many tensors gets no further buffer: those of the last batch are made while its last copies run.
const MOST_TENSORS: usize = 4096;

/// A tensor to load. There may be many small ones, so a whole tensor has no memory of its own.
pub(crate) struct Wanted {
    pub(crate) index: usize,
    pub(crate) bytes: usize,
    /// The position in its buffer, or of a mapped tensor that in its file.
    pub(crate) at: usize,
    pub(crate) slice: Option<Box<Cut>>,
}

/// The contents of one buffer.
#[derive(Default)]
pub(crate) struct Group {
    /// The file.
    pub(crate) shard: usize,
    /// The tensors, as a part of [`Plan::wanted`].
    pub(crate) tensors: Range<usize>,
    pub(crate) bytes: usize,
    /// The bytes that are read.
    pub(crate) file_bytes: u64,
    pub(crate) runs: Vec<Runs>,
}

/// The tensors in order, as groups.
pub(crate) struct Plan {
    pub(crate) opened: Arc<Opened>,
    pub(crate) options: LoadOptions,
    pub(crate) flow: Arc<Flow>,
    /// The most bytes of tensors that the receiver has not taken.
    pub(crate) most_untaken: usize,
    pub(crate) wanted: Vec<Wanted>,
    /// The first tensor that no group has.
    next: usize,
    batch_bytes: usize,
    /// The bytes of all files that are read.
    pub(crate) file_bytes: u64,
}

impl Plan {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        options: &LoadOptions,
        most_untaken: usize,
    ) -> Result<Self> {
        let mut wanted = Vec::with_capacity(opened.tensors.len());
        for (index, info) in opened.tensors.iter().enumerate() {
            if (options.only)(&info.name) {
                let slice = (options.slices)(info);
                let slice = slice.map(|(dimension, range)| info.cut(dimension, range));
                let slice = slice.transpose()?.map(Box::new);
                let bytes = |cut: &Cut| cut.runs.bytes * cut.runs.count;
                wanted.push(Wanted {
                    index,
                    bytes: slice.as_deref().map_or(info.bytes, bytes),
                    at: 0,
                    slice,
                });
            }
        }
        Ok(Self {
            opened: Arc::clone(opened),
            options: options.clone(),
            flow: Arc::default(),
            most_untaken,
            file_bytes: wanted.iter().map(|wanted| wanted.bytes as u64).sum(),
            wanted,
            next: 0,
            batch_bytes: MOST_BATCH.min(options.bytes_in_flight / 2),
        })
    }

    pub(crate) fn info(&self, wanted: &Wanted) -> &TensorInfo {
        &self.opened.tensors[wanted.index]
    }

    pub(crate) fn name(&self, wanted: &Wanted) -> &str {
        &self.info(wanted).name
    }

    /// The runs of a tensor in its file.
    pub(crate) fn runs(&self, wanted: &Wanted) -> Runs {
        match &wanted.slice {
            Some(cut) => cut.runs,
            None => whole(self.info(wanted).offset, wanted.bytes),
        }
    }

    /// Takes those tensors out of the plan for which `fits` returns true.
    pub(crate) fn split_off(&mut self, fits: fn(&Self, &Wanted) -> bool) -> Vec<Wanted> {
        let all = std::mem::take(&mut self.wanted).into_iter();
        let (fit, rest): (Vec<_>, Vec<_>) = all.partition(|wanted| fits(self, wanted));
        self.file_bytes -= fit.iter().map(|wanted| wanted.bytes as u64).sum::<u64>();
        self.wanted = rest;
        fit
    }

    /// Takes all tensors, each as a group.
    pub(crate) fn alone(&mut self) -> Vec<Group> {
        std::iter::from_fn(|| self.group(0)).collect()
    }

    /// Takes the next group, of at most so many bytes if it has several tensors.
    fn group(&mut self, most: usize) -> Option<Group> {
        let first = self.wanted.get(self.next)?;
        let (shard, small) = (self.info(first).shard, SMALL.min(most));
        let is_shared = first.bytes < small;
        let mut group = Group {
            shard,
            tensors: self.next..self.next,
            ..Group::default()
        };
        while let Some(wanted) = self.wanted.get(self.next) {
            let at = group.bytes.next_multiple_of(ALIGN);
            let fits = is_shared && wanted.bytes < small && at + wanted.bytes <= most;
            let is_first = group.tensors.is_empty();
            if !is_first && (!fits || self.info(wanted).shard != shard) {
                break;
            }
            group.add(wanted.bytes, self.runs(wanted), at);
            self.wanted[self.next].at = at;
            self.next += 1;
        }
        Some(group)
    }

    /// Takes the groups that are allocated and read at a time.
    pub(crate) fn batch(&mut self) -> Option<Vec<Group>> {
        let (first, most) = (self.next, MOST_SHARED.min(self.batch_bytes));
        let mut batch = vec![self.group(most)?];
        let mut bytes = batch[0].bytes;
        while let Some(next) = self.wanted.get(self.next)
            && bytes + next.bytes <= self.batch_bytes
            && self.next - first < MOST_TENSORS
            && let Some(group) = self.group(most)
        {
            bytes += group.bytes;
            batch.push(group);
        }
        Some(batch)
    }

    /// The tensor at a position of a group's buffer, and the position in the file.
    pub(crate) fn locate(&self, group: &Group, position: usize) -> (&Wanted, u64) {
        let tensors = &self.wanted[group.tensors.clone()];
        let next = tensors.partition_point(|wanted| wanted.at <= position);
        let wanted = &tensors[next.max(1) - 1];
        let runs = self.runs(wanted);
        let inside = (position - wanted.at).min(wanted.bytes);
        let number = (inside / runs.bytes.max(1)).min(runs.count - 1);
        let rest = inside - number * runs.bytes;
        let at = runs.offset + number as u64 * runs.stride + rest as u64;
        (wanted, at)
    }
}

impl Group {
    fn add(&mut self, bytes: usize, runs: Runs, at: usize) {
        self.tensors.end += 1;
        self.bytes = at + bytes;
        self.file_bytes += bytes as u64;
        match self.runs.last_mut() {
            _ if runs.bytes == 0 => {}
            // Neighbours in the file and in the buffer are one run.
            Some(last)
                if last.count == 1
                    && runs.count == 1
                    && last.at + last.bytes == at
                    && last.offset + last.bytes as u64 == runs.offset =>
            {
                last.bytes += runs.bytes;
            }
            _ => self.runs.push(Runs { at, ..runs }),
        }
    }
}
