//! Which bytes go to which buffer.

use std::iter::Peekable;
use std::sync::Arc;
use std::vec;

use um_backend::cuda_um::buffer::Runs;

use crate::each::Flow;
use crate::error::Result;
use crate::info::{Cut, TensorInfo, whole};
use crate::options::LoadOptions;
use crate::weights::Opened;

/// Every tensor in an allocation that several share begins at a multiple of this.
const ALIGN: usize = 256;
/// Tensors below this size share an allocation with those after them.
const SMALL: usize = 1 << 20;
/// The largest shared allocation.
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
    pub(crate) tensors: Vec<Wanted>,
    pub(crate) bytes: usize,
    /// The bytes that are read.
    pub(crate) file_bytes: u64,
    pub(crate) runs: Vec<Runs>,
}

/// How the tensors of a load become groups.
pub(crate) struct Plan {
    pub(crate) opened: Arc<Opened>,
    pub(crate) options: LoadOptions,
    pub(crate) flow: Arc<Flow>,
    /// The most bytes of tensors that the receiver has not taken.
    pub(crate) most_untaken: usize,
    batch_bytes: usize,
    /// The bytes of all files that are read.
    pub(crate) file_bytes: u64,
}

/// Tensors that no group has, in order.
pub(crate) type Left = Peekable<vec::IntoIter<Wanted>>;

impl Plan {
    /// Returns the plan and its tensors.
    pub(crate) fn new(
        opened: &Arc<Opened>,
        options: &LoadOptions,
        most_untaken: usize,
    ) -> Result<(Self, Vec<Wanted>)> {
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
        let plan = Self {
            opened: Arc::clone(opened),
            options: options.clone(),
            flow: Arc::default(),
            most_untaken,
            file_bytes: wanted.iter().map(|wanted| wanted.bytes as u64).sum(),
            batch_bytes: MOST_BATCH.min(options.bytes_in_flight / 2),
        };
        Ok((plan, wanted))
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
    pub(crate) fn split_off(
        &mut self,
        wanted: &mut Vec<Wanted>,
        fits: fn(&Self, &Wanted) -> bool,
    ) -> Vec<Wanted> {
        let fit: Vec<_> = wanted.extract_if(.., |wanted| fits(self, wanted)).collect();
        self.file_bytes -= fit.iter().map(|wanted| wanted.bytes as u64).sum::<u64>();
        fit
    }

    /// Each tensor as a group.
    pub(crate) fn alone(&self, wanted: Vec<Wanted>) -> Vec<Group> {
        let mut left = wanted.into_iter().peekable();
        std::iter::from_fn(|| self.group(&mut left, 0)).collect()
    }

    /// Takes the next group, of at most so many bytes if it has several tensors.
    fn group(&self, left: &mut Left, most: usize) -> Option<Group> {
        let first = left.next()?;
        let (shard, small) = (self.info(&first).shard, SMALL.min(most));
        let is_shared = first.bytes < small;
        let mut group = Group {
            shard,
            ..Group::default()
        };
        group.add(self.runs(&first), 0, first);
        loop {
            let at = group.bytes.next_multiple_of(ALIGN);
            let fits = |next: &Wanted| {
                is_shared
                    && next.bytes < small
                    && at + next.bytes <= most
                    && self.info(next).shard == shard
            };
            let Some(next) = left.next_if(fits) else {
                return Some(group);
            };
            group.add(self.runs(&next), at, next);
        }
    }

    /// Takes the groups that are allocated and read at a time.
    pub(crate) fn batch(&self, left: &mut Left) -> Option<Vec<Group>> {
        let most = MOST_SHARED.min(self.batch_bytes);
        let mut batch = vec![self.group(left, most)?];
        let (mut bytes, mut tensors) = (batch[0].bytes, batch[0].tensors.len());
        while let Some(next) = left.peek()
            && bytes + next.bytes <= self.batch_bytes
            && tensors < MOST_TENSORS
            && let Some(group) = self.group(left, most)
        {
            bytes += group.bytes;
            tensors += group.tensors.len();
            batch.push(group);
        }
        Some(batch)
    }

    /// The tensor at a position of a group's buffer, and the position in the file.
    pub(crate) fn locate<'g>(&self, group: &'g Group, position: usize) -> (&'g Wanted, u64) {
        let tensors = &group.tensors;
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
    fn add(&mut self, runs: Runs, at: usize, wanted: Wanted) {
        self.bytes = at + wanted.bytes;
        self.file_bytes += wanted.bytes as u64;
        self.tensors.push(Wanted { at, ..wanted });
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
