//! Kinds of memory, and whether it may be more than the device has.

/// The kind of memory of a buffer or a [`MemoryResource`](crate::MemoryResource).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "cudaMemoryType")]
pub enum MemoryKind {
    /// Managed memory (`cudaMallocManaged`): one pointer for the CPU and all GPUs, pages migrate.
    Managed,
    /// Memory of one GPU (`cudaMalloc`).
    Device,
    /// Page-locked memory of the host (`cudaHostAlloc`).
    Pinned,
    /// Page-locked memory that the caller allocated (`cudaHostRegister`).
    Registered,
}

impl MemoryKind {
    /// CUDA's function that makes memory of the kind.
    pub(crate) fn call(self) -> &'static str {
        match self {
            Self::Managed => "cudaMallocManaged",
            Self::Device => "cudaMalloc",
            Self::Pinned => "cudaHostAlloc",
            Self::Registered => "cudaHostRegister",
        }
    }

    /// The name in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed memory",
            Self::Device => "device memory",
            Self::Pinned => "pinned memory",
            Self::Registered => "registered memory",
        }
    }
}

/// Whether managed memory may be more than the device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oversubscription {
    /// No: an allocation larger than what is free, or than the device together with the managed memory that lives there already,
    /// is refused as out of memory. An oversubscribed device can hang for every process that uses it.
    #[default]
    Refused,
    /// Yes: the driver evicts pages to the host as needed.
    Allowed,
}
