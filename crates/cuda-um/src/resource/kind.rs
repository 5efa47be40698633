//! Kinds of memory.

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
