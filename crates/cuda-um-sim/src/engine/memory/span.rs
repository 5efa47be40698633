//! A checked range of memory.

/// The memory behind a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// Managed, of the allocation at this base.
    Managed(usize),
    /// Of a device.
    Device(usize),
    /// Pinned by `cudaHostAlloc`, or registered.
    Pinned,
    /// Any other memory.
    Pageable,
}

/// A checked range of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) memory: Memory,
    /// The caller's address.
    pub(crate) address: usize,
    /// The address at which the simulator reads and writes it.
    pub(crate) view: usize,
    pub(crate) bytes: usize,
    /// The id of the allocation that holds it.
    pub(crate) allocation: Option<usize>,
}
