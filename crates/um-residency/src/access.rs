//! What a step does with a buffer, and the life of its contents.

/// What a step does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Read,
    /// Writes all of it.
    Write,
    ReadWrite,
}

/// The life of a buffer's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Steps only read it. It leaves the arena without a transfer.
    ReadOnly,
    /// Steps change it. Changed contents are written back when it leaves the arena.
    ReadWrite,
    /// As `ReadWrite`, for intermediate results: it begins with zeros, and its home is made when it first leaves the arena.
    Scratch,
}
