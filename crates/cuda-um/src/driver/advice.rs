//! Advice on the use of managed memory, in CUDA's terms.

use crate::driver::location::Location;
use cuda_um_sys::cudaMemoryAdvise;

/// Advice to the driver on the future use of managed memory. It changes the location and the mapping of pages, never their contents.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{Advice, Location, UnifiedBuffer};
///
/// let queries = UnifiedBuffer::from_slice(&device, &[0.5f32; 768])?;
/// queries.advise(Advice::SetReadMostly)?;
/// assert!(queries.range_attributes()?.read_mostly);
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "cudaMemoryAdvise")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// The memory is mostly read: each processor that reads a page gets a read-only copy, and a write invalidates the copies.
    #[doc(alias = "cudaMemAdviseSetReadMostly")]
    SetReadMostly,
    /// Undoes [`SetReadMostly`](Self::SetReadMostly); one copy of each page remains.
    #[doc(alias = "cudaMemAdviseUnsetReadMostly")]
    UnsetReadMostly,
    /// The location is preferred: other processors map the pages, if they can, instead of migrating them.
    #[doc(alias = "cudaMemAdviseSetPreferredLocation")]
    SetPreferredLocation(Location),
    /// Undoes [`SetPreferredLocation`](Self::SetPreferredLocation).
    #[doc(alias = "cudaMemAdviseUnsetPreferredLocation")]
    UnsetPreferredLocation,
    /// The processor will access the memory: the pages stay mapped for it, so that its accesses do not fault.
    #[doc(alias = "cudaMemAdviseSetAccessedBy")]
    SetAccessedBy(Location),
    /// Undoes [`SetAccessedBy`](Self::SetAccessedBy).
    #[doc(alias = "cudaMemAdviseUnsetAccessedBy")]
    UnsetAccessedBy(Location),
}

impl Advice {
    /// Returns false for advice that undoes another.
    pub(crate) fn is_set(self) -> bool {
        // CUDA's constants that set advice are odd.
        self.to_sys().0.0 % 2 == 1
    }

    /// CUDA's constant, and the location. If the advice names no location, CUDA ignores the value.
    pub(crate) fn to_sys(self) -> (cudaMemoryAdvise, Location) {
        match self {
            Self::SetReadMostly => (cudaMemoryAdvise::cudaMemAdviseSetReadMostly, Location::Host),
            Self::UnsetReadMostly => (
                cudaMemoryAdvise::cudaMemAdviseUnsetReadMostly,
                Location::Host,
            ),
            Self::SetPreferredLocation(at) => {
                (cudaMemoryAdvise::cudaMemAdviseSetPreferredLocation, at)
            }
            Self::UnsetPreferredLocation => (
                cudaMemoryAdvise::cudaMemAdviseUnsetPreferredLocation,
                Location::Host,
            ),
            Self::SetAccessedBy(by) => (cudaMemoryAdvise::cudaMemAdviseSetAccessedBy, by),
            Self::UnsetAccessedBy(by) => (cudaMemoryAdvise::cudaMemAdviseUnsetAccessedBy, by),
        }
    }
}
