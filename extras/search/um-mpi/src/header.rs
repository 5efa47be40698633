//! What a rank is about to do, which all ranks exchange before they do it.

use crate::MpiError;
use bytemuck::{Pod, Zeroable};
use std::fmt;

/// The version of [`Header`] and of the order of messages.
const PROTOCOL: u32 = 2;

// The operations of a communicator.
pub(crate) const BARRIER: u32 = 1;
pub(crate) const ALL_GATHER: u32 = 2;
pub(crate) const BROADCAST: u32 = 3;
pub(crate) const END: u32 = 4;

/// A message of up to this many bytes is in its header, which saves an exchange.
pub(crate) const SHORT: usize = 1024;

/// The first message of each operation, in the bytes of this struct: every host of CUDA is little-endian, with 64 bits. Its size never changes,
/// so that ranks with different programs do not hang.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct Header {
    version: u32,
    operation: u32,
    /// The root of a broadcast.
    root: usize,
    /// The length of this rank's message.
    pub(crate) bytes: usize,
    short: [u8; SHORT],
}

impl Header {
    pub(crate) fn new(operation: u32, root: usize, message: &[u8]) -> Self {
        let mut short = [0; SHORT];
        if let Some(room) = short.get_mut(..message.len()) {
            room.copy_from_slice(message);
        }
        Self {
            version: PROTOCOL,
            operation,
            root,
            bytes: message.len(),
            short,
        }
    }

    /// The rank's message, or, if it is longer than a header, zeros in its place.
    pub(crate) fn message(&self) -> Result<Vec<u8>, MpiError> {
        let short = self.short.get(..self.bytes);
        short.map_or_else(|| zeroed(self.bytes), copied)
    }

    /// Checks that all ranks are about to do what this one does.
    pub(crate) fn agrees_with(&self, all: &[Self]) -> Result<(), MpiError> {
        for (rank, other) in all.iter().enumerate() {
            if other.version != self.version {
                return Err(MpiError::Protocol {
                    rank,
                    theirs: other.version,
                    ours: self.version,
                });
            }
            if (other.operation, other.root) != (self.operation, self.root) {
                return Err(MpiError::Order {
                    rank,
                    theirs: other.to_string(),
                    ours: self.to_string(),
                });
            }
        }
        Ok(())
    }
}

/// Memory for what the ranks send.
pub(crate) fn zeroed<T: Zeroable>(len: usize) -> Result<Vec<T>, MpiError> {
    let bytes = (len * size_of::<T>()) as u64;
    bytemuck::try_zeroed_vec(len).map_err(|()| MpiError::OutOfMemory { bytes })
}

/// A copy of a message. It writes its memory once, and so is faster than [`zeroed`] and a copy.
pub(crate) fn copied(message: &[u8]) -> Result<Vec<u8>, MpiError> {
    let (mut copy, bytes) = (Vec::new(), message.len() as u64);
    let reserved = copy.try_reserve_exact(message.len());
    reserved.map_err(|_| MpiError::OutOfMemory { bytes })?;
    copy.extend_from_slice(message);
    Ok(copy)
}

/// The operation.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            BARRIER => f.write_str("barrier"),
            ALL_GATHER => f.write_str("all_gather"),
            BROADCAST => write!(f, "broadcast from rank {}", self.root),
            END => f.write_str("the end of MPI (it dropped its Mpi)"),
            other => write!(f, "an unknown operation ({other})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_told_before_what_it_wants() {
        let ours = Header::new(ALL_GATHER, 0, &[]);
        let mut newer = Header::new(99, 1, &[]);
        newer.version += 1;
        let text = ours.agrees_with(&[ours, newer]).unwrap_err().to_string();
        let right = "rank 1 runs version 3 of um-mpi's protocol, this rank version 2";
        assert!(text.starts_with(right), "{text}");
    }
}
