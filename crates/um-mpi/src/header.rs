//! What a rank is about to do, which all ranks exchange before they do it.

use crate::MpiError;
use std::fmt;

/// The version of [`Header`] and of the order of messages.
const PROTOCOL: u32 = 1;

// The operations of a communicator.
pub(crate) const BARRIER: u32 = 1;
pub(crate) const ALL_GATHER: u32 = 2;
pub(crate) const BROADCAST: u32 = 3;
pub(crate) const END: u32 = 4;

/// The first message of each operation, in the bytes of this struct (every host of CUDA is little-endian). Its size never changes, so that ranks
/// with different programs do not hang.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    version: u32,
    operation: u32,
    /// The root of a broadcast.
    argument: u64,
    /// The bytes that this rank sends.
    pub(crate) bytes: u64,
}

impl Header {
    pub(crate) fn new(operation: u32, argument: usize, bytes: usize) -> Self {
        Self {
            version: PROTOCOL,
            operation,
            argument: argument as u64,
            bytes: bytes as u64,
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
            if (other.operation, other.argument) != (self.operation, self.argument) {
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
        match self.operation {
            BARRIER => f.write_str("barrier"),
            ALL_GATHER => f.write_str("all_gather"),
            BROADCAST => write!(f, "broadcast from rank {}", self.argument),
            END => f.write_str("the end of MPI (it dropped its Mpi)"),
            other => write!(f, "an unknown operation ({other})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rank_that_differs_is_named() {
        let gather = Header::new(ALL_GATHER, 0, 7);
        let other_length = Header::new(ALL_GATHER, 0, 1 << 40);
        assert_eq!(gather.agrees_with(&[gather, other_length]), Ok(()));

        let (one, two) = (Header::new(BROADCAST, 1, 0), Header::new(BROADCAST, 2, 0));
        let error = one.agrees_with(&[one, two, gather]).unwrap_err();
        assert!(
            error.to_string().starts_with(
                "rank 1 called broadcast from rank 2 while this rank called broadcast from rank 1"
            ),
            "{error}"
        );
        let newer = Header {
            version: PROTOCOL + 1,
            operation: 99,
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
