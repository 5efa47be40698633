//! Another split, or other devices.

use std::ops::Range;

use super::{Shard, Sharded, Split, failed};
use crate::backend::CudaBackend;
use crate::dtype::Element;
use crate::error::Result;

impl<T: Element> Sharded<T> {
    /// Splits the rows anew, over the same or other devices. Rows go from device to device, by the peers' link if peer access is enabled; a
    /// shard that keeps its device and its rows is not copied. Until the copies are done, both the old and the new shards have memory.
    ///
    /// # Ordering
    /// The copies are enqueued when this returns, each on the library's stream of the device that gets the rows, after earlier work on the
    /// old shards. Later work is ordered after them.
    ///
    /// # Errors
    /// As for [`zeroed`](Self::zeroed), and errors of the copies. The old split then stays, with all its rows.
    #[doc(alias = "cudaMemcpyPeerAsync")]
    pub fn reshard(&mut self, backends: &[CudaBackend], split: Split<'_>) -> Result<()> {
        let ranges = split.ranges(backends, self.rows())?;
        let mut made = Vec::with_capacity(backends.len());
        for (number, (backend, rows)) in backends.iter().zip(ranges).enumerate() {
            // Work of another runtime could not use the memory.
            let is_here = |old: &CudaBackend| {
                let (old, new) = (old.device(), backend.device());
                old.ordinal() == new.ordinal() && old.runtime().is_same(new.runtime())
            };
            let is_same = |old: &Shard<T>| old.rows == rows && is_here(&old.backend);
            made.push(match self.shards.iter().position(is_same) {
                Some(kept) => Err(kept),
                None => {
                    let shard = self.gathered(backend, rows);
                    Ok(shard.map_err(|cause| failed(number, backend, cause))?)
                }
            });
        }
        let mut old: Vec<_> = self.shards.drain(..).map(Some).collect();
        let shards = made.into_iter().zip(backends);
        self.shards.extend(shards.filter_map(|(made, backend)| {
            let shard = made.or_else(|kept| old[kept].take().ok_or(())).ok()?;
            let backend = backend.clone();
            Some(Shard { backend, ..shard })
        }));
        Ok(())
    }

    fn gathered(&self, backend: &CudaBackend, rows: Range<usize>) -> Result<Shard<T>> {
        let mut shard = Shard::new(backend, self.kind, rows, self.row_len)?;
        for old in &self.shards {
            let start = shard.rows.start.max(old.rows.start);
            let end = shard.rows.end.min(old.rows.end);
            if start < end {
                let element = |row, rows: &Range<usize>| (row - rows.start) * self.row_len;
                let source = element(start, &old.rows)..element(end, &old.rows);
                let at = element(start, &shard.rows);
                let target = &mut shard.buffer;
                target.copy_from_buffer_at(at, &*old.buffer, source)?;
            }
        }
        Ok(shard)
    }
}
