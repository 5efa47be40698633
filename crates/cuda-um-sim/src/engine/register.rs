//! Caller memory registered with `cudaHostRegister`.

use super::registered::Registered;
use super::state::{Machine, State};
use super::status::Code;

impl State {
    pub(crate) fn register(
        &mut self,
        machine: &Machine,
        address: usize,
        bytes: usize,
        flags: u32,
    ) -> Result<(), Code> {
        let end = address
            .checked_add(bytes)
            .filter(|_| address != 0 && bytes > 0)
            .ok_or(Code::INVALID_VALUE)?;
        // Portable 1, mapped 2, I/O memory 4, read-only 8.
        if flags & !0xf != 0 || machine.space.contains(address) {
            return Err(Code::INVALID_VALUE);
        }
        let before = self.registered.range(..end).next_back();
        if before.is_some_and(|(start, registered)| start + registered.bytes > address) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.registered.insert(address, Registered { bytes, flags });
        Ok(())
    }

    pub(crate) fn unregister(&mut self, address: usize) -> Result<(), Code> {
        self.registered
            .remove(&address)
            .map(drop)
            .ok_or(Code::HOST_MEMORY_NOT_REGISTERED)
    }

    /// The registered range that holds an address: its start and itself.
    pub(crate) fn registration(&self, address: usize) -> Option<(usize, Registered)> {
        let (&start, &registered) = self.registered.range(..=address).next_back()?;
        (address < start + registered.bytes).then_some((start, registered))
    }
}
