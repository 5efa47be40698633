//! Advice on the use of managed memory, as CUDA takes it.

use crate::driver::location::Location;
use cuda_um_sys::cudaMemoryAdvise;

/// How managed memory will be used. It changes where pages live and how they are mapped, never what they hold.
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
pub enum Advice {
    /// Mostly read: who reads it gets a copy of its own, and a write ends the copies.
    #[doc(alias = "cudaMemAdviseSetReadMostly")]
    SetReadMostly,
    /// Undoes [`SetReadMostly`](Self::SetReadMostly); one copy stays.
    #[doc(alias = "cudaMemAdviseUnsetReadMostly")]
    UnsetReadMostly,
    /// It should live there: others map it rather than migrate it, where they can.
    #[doc(alias = "cudaMemAdviseSetPreferredLocation")]
    SetPreferredLocation(Location),
    /// Undoes [`SetPreferredLocation`](Self::SetPreferredLocation).
    #[doc(alias = "cudaMemAdviseUnsetPreferredLocation")]
    UnsetPreferredLocation,
    /// That processor will use it: it stays mapped there, so that no access faults.
    #[doc(alias = "cudaMemAdviseSetAccessedBy")]
    SetAccessedBy(Location),
    /// Undoes [`SetAccessedBy`](Self::SetAccessedBy).
    #[doc(alias = "cudaMemAdviseUnsetAccessedBy")]
    UnsetAccessedBy(Location),
}

impl Advice {
    /// CUDA's name without the prefix, and the location that it names.
    pub(crate) fn in_cudas_words(self) -> (&'static str, Option<Location>) {
        match self {
            Self::SetReadMostly => ("SetReadMostly", None),
            Self::UnsetReadMostly => ("UnsetReadMostly", None),
            Self::SetPreferredLocation(at) => ("SetPreferredLocation", Some(at)),
            Self::UnsetPreferredLocation => ("UnsetPreferredLocation", None),
            Self::SetAccessedBy(at) => ("SetAccessedBy", Some(at)),
            Self::UnsetAccessedBy(at) => ("UnsetAccessedBy", Some(at)),
        }
    }

    /// CUDA's number, and the location; where that has no meaning any will do.
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
