//! What a rank is about to do, which all ranks exchange before they do it.

use crate::MpiError;
use std::fmt;

/// The version of [`Header`] and of the order of messages.
const PROTOCOL: u32 = 1;

/// The operations of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Barrier = 1,
    AllGather = 2,
    Broadcast = 3,
    End = 4,
}

/// The first message of each operation; its size never changes, so that ranks with different programs do not hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    version: u32,
    kind: u32,
    /// The root of a broadcast.
    argument: u64,
    /// The bytes that this rank sends.
    pub(crate) bytes: u64,
}

impl Header {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn new(kind: Kind, argument: u64, bytes: usize) -> Self {
        Self {
            version: PROTOCOL,
            kind: kind as u32,
            argument,
            bytes: bytes as u64,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.argument.to_le_bytes());
        bytes[16..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let short =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Self {
            version: short(0),
            kind: short(4),
            argument: long(8),
            bytes: long(16),
        }
    }

    /// Checks that all ranks are about to do what this one does.
    pub(crate) fn agrees_with(self, all: &[Self]) -> Result<(), MpiError> {
        for (rank, other) in all.iter().enumerate() {
            if other.version != self.version {
                return Err(MpiError::Protocol {
                    rank,
                    theirs: other.version,
                    ours: self.version,
                });
            }
            if (other.kind, other.argument) != (self.kind, self.argument) {
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

/// The operation.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            kind if kind == Kind::Barrier as u32 => f.write_str("barrier"),
            kind if kind == Kind::AllGather as u32 => f.write_str("all_gather"),
            kind if kind == Kind::Broadcast as u32 => {
                write!(f, "broadcast from rank {}", self.argument)
            }
            kind if kind == Kind::End as u32 => f.write_str("the end of MPI (it dropped its Mpi)"),
            kind => write!(f, "an unknown operation ({kind})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rank_that_differs_is_named() {
        let gather = Header::new(Kind::AllGather, 0, 7);
        let other_length = Header::new(Kind::AllGather, 0, 1 << 40);
        assert_eq!(Header::from_bytes(&other_length.to_bytes()), other_length);
        assert_eq!(gather.agrees_with(&[gather, other_length]), Ok(()));

        let (one, two) = (
            Header::new(Kind::Broadcast, 1, 0),
            Header::new(Kind::Broadcast, 2, 0),
        );
        let error = one.agrees_with(&[one, two, gather]).unwrap_err();
        assert!(
            error.to_string().starts_with(
                "rank 1 called broadcast from rank 2 while this rank called broadcast from rank 1"
            ),
            "{error}"
        );
        let newer = Header {
            version: PROTOCOL + 1,
            kind: 99,
            ..gather
        };
        let error = MpiError::Protocol {
            rank: 1,
            theirs: PROTOCOL + 1,
            ours: PROTOCOL,
        };
        assert_eq!(gather.agrees_with(&[gather, newer]), Err(error));
    }
}
