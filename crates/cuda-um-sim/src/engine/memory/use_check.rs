//! Checks that memory is not freed while enqueued work needs it, or while running work uses it.

use super::allocation::Allocation;
use super::map::MemoryMap;
use super::span::Span;
use crate::misuse::Misuse;

impl MemoryMap {
    /// Checks a range when work on it is enqueued. If a free of it is enqueued already, it is a use after free: the free runs before the
    /// work, or at the same time.
    pub(crate) fn check_enqueued(&self, span: &Span) {
        let freeing = |allocation: &Allocation| allocation.freeing.is_some();
        if span.bytes > 0 && self.holding(span.address).is_some_and(freeing) {
            let address = span.address;
            self.misuse.report(Misuse::UseAfterFree { address });
        }
    }

    /// The same check for a whole allocation; returns the allocation's id.
    pub(crate) fn enqueued_id(&self, base: usize) -> Option<usize> {
        let allocation = self.get(base)?;
        if allocation.freeing.is_some() {
            self.misuse.report(Misuse::UseAfterFree { address: base });
        }
        Some(allocation.id)
    }

    /// Checks, when work begins, that the allocation at `base` is the one that was there when the work was enqueued.
    pub(crate) fn is_still(&self, id: Option<usize>, base: usize) -> bool {
        let is = self.get(base).map(|allocation| allocation.id) == id;
        if !is {
            self.misuse.report(Misuse::UseAfterFree { address: base });
        }
        is
    }

    /// Work begins and uses `spans`. Returns false if one of them was freed since the work was enqueued: the work faults.
    pub(crate) fn begin_use(&mut self, work: usize, spans: &[Span]) -> bool {
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
                self.misuse.report(Misuse::UseAfterFree { address });
                self.end_use(work);
                return false;
            }
            self.add_use(work, address, bytes);
        }
        true
    }

    /// Work uses a range until it ends.
    pub(crate) fn add_use(&mut self, work: usize, address: usize, bytes: usize) {
        self.in_use.push((work, address..address + bytes));
    }

    /// Work has ended.
    pub(crate) fn end_use(&mut self, work: usize) {
        self.in_use.retain(|(user, _)| *user != work);
    }

    /// An allocation is freed: running work must not use it.
    pub(super) fn check_not_in_use(&self, allocation: &Allocation) {
        let (start, end) = (allocation.base, allocation.end());
        let mut in_use = self.in_use.iter();
        if in_use.any(|(_, used)| used.start < end && start < used.end) {
            let address = allocation.base;
            self.misuse.report(Misuse::UseAfterFree { address });
        }
    }
}
