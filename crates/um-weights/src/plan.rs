//! Which bytes go to which buffer.

use um_backend::cuda_um::buffer::Runs;

use crate::error::Result;
use crate::info::{Cut, TensorInfo};
use crate::options::LoadOptions;

/// Every tensor in a buffer that several share begins at a multiple of this.
const ALIGN: usize = 256;
/// Tensors below this size share a buffer with those after them.
const SMALL: usize = 1 << 20;
/// The largest shared buffer.
const MOST_SHARED: usize = 64 << 20;
/// The largest number of bytes that are allocated at a time.
const MOST_BATCH: usize = 256 << 20;

/// A tensor to load.
pub(crate) struct Wanted {
    pub(crate) index: usize,
    pub(crate) cut: Cut,
}

/// The contents of one buffer.
#[derive(Default)]
pub(crate) struct Group {
    /// The file.
    pub(crate) shard: usize,
    /// The tensors, with their positions.
    pub(crate) tensors: Vec<(Wanted, usize)>,
    pub(crate) bytes: usize,
    pub(crate) runs: Vec<Runs>,
}

/// The tensors in order, as groups.
pub(crate) struct Plan {
    wanted: std::iter::Peekable<std::vec::IntoIter<(usize, Wanted)>>,
    batch_bytes: usize,
    /// The bytes of all files that are read.
    pub(crate) file_bytes: u64,
}

impl Plan {
    pub(crate) fn new(tensors: &[TensorInfo], options: &LoadOptions) -> Result<Self> {
        let (mut wanted, mut file_bytes) = (Vec::new(), 0);
        for (index, info) in tensors.iter().enumerate() {
            if options.only.as_ref().is_some_and(|only| !only(&info.name)) {
                continue;
            }
            let slice = options.slices.as_ref().and_then(|slices| slices(info));
            let cut = info.cut(slice)?;
            file_bytes += cut.bytes as u64;
            wanted.push((info.shard, Wanted { index, cut }));
        }
        Ok(Self {
            wanted: wanted.into_iter().peekable(),
            batch_bytes: MOST_BATCH.min(options.bytes_in_flight / 2),
            file_bytes,
        })
    }

    /// Takes those tensors out of the plan for which `fits` returns true.
    pub(crate) fn split_off(&mut self, fits: impl Fn(&Wanted) -> bool) -> Vec<(usize, Wanted)> {
        let all = std::mem::replace(&mut self.wanted, Vec::new().into_iter().peekable());
        let (fit, rest): (Vec<_>, Vec<_>) = all.partition(|(_, wanted)| fits(wanted));
        let bytes = fit.iter().map(|(_, wanted)| wanted.cut.bytes as u64);
        self.file_bytes -= bytes.sum::<u64>();
        self.wanted = rest.into_iter().peekable();
        fit
    }

    /// Takes the next group.
    fn group(&mut self) -> Option<Group> {
        let (shard, first) = self.wanted.next()?;
        let is_shared = first.cut.bytes < SMALL;
        let most = MOST_SHARED.min(self.batch_bytes);
        let mut group = Group {
            shard,
            ..Group::default()
        };
        group.add(first);
        while is_shared
            && let Some((_, next)) = self.wanted.next_if(|(next, wanted)| {
                let bytes = wanted.cut.bytes;
                *next == shard
                    && bytes < SMALL
                    && group.bytes.next_multiple_of(ALIGN) + bytes <= most
            })
        {
            group.add(next);
        }
        Some(group)
    }

    /// Takes the groups that are allocated and read at a time.
    pub(crate) fn batch(&mut self) -> Option<Vec<Group>> {
        let mut batch = vec![self.group()?];
        let mut bytes = batch[0].bytes;
        while self
            .wanted
            .peek()
            .is_some_and(|(_, next)| bytes + next.cut.bytes <= self.batch_bytes)
            && let Some(group) = self.group()
        {
            bytes += group.bytes;
            batch.push(group);
        }
        Some(batch)
    }
}

impl Group {
    fn add(&mut self, wanted: Wanted) {
        let at = self.bytes.next_multiple_of(ALIGN);
        self.bytes = at + wanted.cut.bytes;
        let runs = Runs {
            at,
            ..wanted.cut.runs
        };
        if runs.bytes > 0 {
            match self.runs.last_mut() {
                // Neighbours in the file and in the buffer are one run.
                Some(last)
                    if last.count == 1
                        && runs.count == 1
                        && last.at + last.bytes == at
                        && last.offset + last.bytes as u64 == runs.offset =>
                {
                    last.bytes += runs.bytes;
                }
                _ => self.runs.push(runs),
            }
        }
        self.tensors.push((wanted, at));
    }

    /// The bytes that are read.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.tensors
            .iter()
            .map(|(wanted, _)| wanted.cut.bytes as u64)
            .sum()
    }

    /// The tensor at a position of the buffer, and the position in the file.
    pub(crate) fn locate(&self, position: usize) -> (&Wanted, u64) {
        let next = self.tensors.partition_point(|(_, at)| *at <= position);
        let (wanted, at) = &self.tensors[next.max(1) - 1];
        let runs = &wanted.cut.runs;
        let inside = (position - at).min(wanted.cut.bytes);
        let number = inside
            .checked_div(runs.bytes)
            .unwrap_or(0)
            .min(runs.count - 1);
        let rest = inside - number * runs.bytes;
        (
            wanted,
            runs.offset + number as u64 * runs.stride + rest as u64,
        )
    }
}
