//! Memory that enqueued work names: it must not be freed before the work, nor while it runs.

use super::allocation::Allocation;
use super::memory::Span;
use super::state::State;
use super::status::Code;
use crate::misuse::Misuse;

impl State {
    /// Work on a range is being enqueued. A free that is enqueued already comes first, or beside it: nothing can order the two otherwise.
    pub(crate) fn names(&mut self, span: &Span) {
        let freeing = |allocation: &Allocation| allocation.freeing.is_some();
        if span.bytes > 0 && self.holding(span.address).is_some_and(freeing) {
            let address = span.address;
            self.misuse.push(Misuse::UseAfterFree { address });
        }
    }

    /// The same for a whole allocation; which one it is now.
    pub(crate) fn named(&mut self, base: usize) -> Option<usize> {
        let (id, freeing) = self
            .allocations
            .get(&base)
            .map(|allocation| (allocation.id, allocation.freeing.is_some()))?;
        if freeing {
            self.misuse.push(Misuse::UseAfterFree { address: base });
        }
        Some(id)
    }

    /// Work that only moves or attaches an allocation begins; whether it is the one that was named.
    pub(crate) fn is_still(&mut self, named: Option<usize>, base: usize) -> bool {
        let is = self.allocations.get(&base).map(|allocation| allocation.id) == named;
        if !is {
            self.misuse.push(Misuse::UseAfterFree { address: base });
        }
        is
    }

    /// Work begins; whether the memory that it names is still what it was when the work was enqueued. If not, the work faults.
    pub(crate) fn begin_touches(&mut self, work: usize, spans: &[Span]) -> bool {
        for &Span {
            address,
            bytes,
            allocation,
            ..
        } in spans
        {
            let Some(id) = allocation.filter(|_| bytes > 0) else {
                continue;
            };
            if self.holding(address).is_none_or(|now| now.id != id) {
                self.misuse.push(Misuse::UseAfterFree { address });
                self.poison(Code::ILLEGAL_ADDRESS);
                self.end_touches(work);
                return false;
            }
            self.touched.push((work, address..address + bytes));
        }
        true
    }

    /// Work has ended.
    pub(crate) fn end_touches(&mut self, work: usize) {
        self.touched.retain(|(by, _)| *by != work);
    }

    /// An allocation is freed: running work must not touch it.
    pub(crate) fn untouched(&mut self, base: usize, bytes: usize) {
        let overlaps =
            |touched: &std::ops::Range<usize>| touched.start < base + bytes && base < touched.end;
        if self.touched.iter().any(|(_, touched)| overlaps(touched)) {
            self.misuse.push(Misuse::UseAfterFree { address: base });
        }
    }
}
