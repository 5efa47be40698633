//! Checks of frees.

use super::allocation::Allocation;
use super::map::MemoryMap;
use crate::engine::status::Code;
use crate::misuse::Misuse;

impl MemoryMap {
    /// Checks a pointer that is to be freed: it must be the start of an allocation.
    pub(crate) fn freeable(&mut self, address: usize) -> Result<&mut Allocation, Code> {
        let known = self
            .get(address)
            .is_some_and(|allocation| allocation.freeing.is_none() && !allocation.kept);
        if !known {
            self.report_bad_free(address);
            return Err(Code::INVALID_VALUE);
        }
        self.allocations
            .get_mut(&address)
            .ok_or(Code::INVALID_VALUE)
    }

    fn report_bad_free(&self, address: usize) {
        let freed =
            self.freed.iter().any(|freed| freed.start == address) || self.get(address).is_some();
        self.misuse.report(if freed {
            Misuse::DoubleFree { address }
        } else {
            Misuse::InvalidFree { address }
        });
    }

    /// A poisoned context frees nothing, so it remembers the addresses, to report one that is freed twice.
    pub(crate) fn refuse_free(&mut self, address: usize) {
        if address != 0 && self.freeable(address).is_ok() && !self.refused_frees.insert(address) {
            self.misuse.report(Misuse::DoubleFree { address });
        }
    }

    /// Whether an address belonged to an allocation that was freed, and belongs to none now.
    pub(crate) fn was_freed(&self, address: usize) -> bool {
        let mut freed = self.freed.iter();
        freed.any(|freed| freed.contains(&address)) && self.holding(address).is_none()
    }
}
