//! Placeholder until the planner is merged.

/// The life of a buffer's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Clean.
    ReadOnly,
    /// Written back.
    ReadWrite,
    /// Of one pass.
    Scratch,
}

/// What a step needs and changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes all.
    Write,
    /// Both.
    ReadWrite,
}
