//! Memory of the caller that is registered with `cudaHostRegister`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::machine::Machine;
use crate::engine::status::Code;

/// `cudaHostRegisterReadOnly`.
pub(crate) const READ_ONLY: u32 = 8;
/// Portable 1, mapped 2, I/O memory 4, read-only 8.
const FLAGS: u32 = 0xf;

/// A registered range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) bytes: usize,
    pub(crate) flags: u32,
    /// The device that was current then.
    pub(crate) device: usize,
}

/// All registered ranges, by their first address.
pub(crate) struct Registrations {
    machine: Arc<Machine>,
    ranges: BTreeMap<usize, Registered>,
}

impl Registrations {
    pub(crate) fn new(machine: Arc<Machine>) -> Registrations {
        let ranges = BTreeMap::new();
        Registrations { machine, ranges }
    }

    pub(crate) fn register(&mut self, address: usize, range: Registered) -> Result<(), Code> {
        let Registered { bytes, flags, .. } = range;
        if !self.machine.host_register {
            return Err(Code::NOT_SUPPORTED);
        }
        let end = address
            .checked_add(bytes)
            .filter(|_| address != 0 && bytes > 0)
            .ok_or(Code::INVALID_VALUE)?;
        if flags & !FLAGS != 0 || self.machine.space.contains(address) {
            return Err(Code::INVALID_VALUE);
        }
        let before = self.ranges.range(..end).next_back();
        if before.is_some_and(|(start, registered)| start + registered.bytes > address) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.ranges.insert(address, range);
        Ok(())
    }

    pub(crate) fn unregister(&mut self, address: usize) -> Result<(), Code> {
        self.ranges
            .remove(&address)
            .map(drop)
            .ok_or(Code::HOST_MEMORY_NOT_REGISTERED)
    }

    /// The registered range that holds an address: its start and itself.
    pub(crate) fn holding(&self, address: usize) -> Option<(usize, Registered)> {
        let (&start, &registered) = self.ranges.range(..=address).next_back()?;
        (address < start + registered.bytes).then_some((start, registered))
    }

    /// Whether the last registered range that begins at or before `address` reaches to `end`.
    pub(super) fn covers(&self, address: usize, end: usize) -> bool {
        let before = self.ranges.range(..=address).next_back();
        before.is_some_and(|(start, registered)| end <= start + registered.bytes)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Registered)> {
        self.ranges
            .iter()
            .map(|(address, registered)| (*address, *registered))
    }
}
