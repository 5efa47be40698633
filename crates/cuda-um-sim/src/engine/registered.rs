//! Caller memory that is registered, as the state holds it.

/// `cudaHostRegisterReadOnly`.
pub(crate) const READ_ONLY: u32 = 8;

/// A registered range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) bytes: usize,
    pub(crate) flags: u32,
}
