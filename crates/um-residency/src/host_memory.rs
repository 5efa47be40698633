//! Memory of homes, as bytes.

use um_backend::Element;
use um_backend::cuda_um::buffer::kind::HostVisible;
use um_backend::cuda_um::{
    Advice, Error, Location, Memory, Result, Stream, UnifiedBuffer, View, ViewMut,
};

/// Memory that copy engines reach: on the host, or managed.
pub(crate) trait HostMemory: Send + Sync {
    fn view(&self) -> Result<View<'_, u8>>;
    fn view_mut(&mut self) -> Result<ViewMut<'_, u8>>;
}

impl<T: Element, K: HostVisible> HostMemory for Memory<T, K> {
    fn view(&self) -> Result<View<'_, u8>> {
        self.as_view().cast()
    }

    fn view_mut(&mut self) -> Result<ViewMut<'_, u8>> {
        self.as_view_mut().cast()
    }
}

/// Moves the pages of managed memory to the host, where they stay, and waits for all work on it. Without concurrent managed access they would
/// not stay: every launch moves them to the device.
pub(crate) fn settle_on_host<T: Element>(
    memory: &mut UnifiedBuffer<T>,
    stream: &Stream,
) -> Result<()> {
    if memory.is_managed() {
        if !memory.device().capabilities().concurrent_managed_access {
            return Err(Error::NotSupported {
                what: "managed memory as the home of a buffer".to_owned(),
                needs: "cudaDevAttrConcurrentManagedAccess".to_owned(),
                have: memory.device().name().to_owned(),
            });
        }
        memory.advise(Advice::UnsetReadMostly)?.require()?;
        // With the host as the preferred location, the driver stages copies as those of pageable memory: a fifth of the speed.
        memory.advise(Advice::UnsetPreferredLocation)?.require()?;
        // Copy engines then use the pages where they are. Without it, a copy moves them to the device.
        let device = Location::from(&stream.device());
        memory.advise(Advice::SetAccessedBy(device))?.require()?;
        memory.prefetch_on(Location::Host, stream)?.require()?;
    }
    memory.host_mut().map(drop)
}
