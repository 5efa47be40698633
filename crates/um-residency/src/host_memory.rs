//! Memory of homes, as bytes.

use std::sync::Arc;

use um_backend::Element;
use um_backend::cuda_um::{
    Advice, Location, PinnedBuffer, RegisteredBuffer, Result, Stream, UnifiedBuffer, View, ViewMut,
};

/// Host memory that copy engines reach, or managed memory.
pub(crate) trait HostMemory: Send + Sync {
    fn view(&self) -> Result<View<'_, u8>>;
    fn view_mut(&mut self) -> Result<ViewMut<'_, u8>>;
    /// Whether kernels can use it, over the link.
    fn is_mapped(&self) -> bool;
}

impl<T: Element> HostMemory for PinnedBuffer<T> {
    fn view(&self) -> Result<View<'_, u8>> {
        self.as_view().cast()
    }

    fn view_mut(&mut self) -> Result<ViewMut<'_, u8>> {
        self.as_view_mut().cast()
    }

    fn is_mapped(&self) -> bool {
        self.is_empty() || self.device_ptr().is_some()
    }
}

impl<T: Element> HostMemory for UnifiedBuffer<T> {
    fn view(&self) -> Result<View<'_, u8>> {
        self.as_view().cast()
    }

    fn view_mut(&mut self) -> Result<ViewMut<'_, u8>> {
        self.as_view_mut().cast()
    }

    fn is_mapped(&self) -> bool {
        false
    }
}

impl<T: Element> HostMemory for RegisteredBuffer<'static, T> {
    fn view(&self) -> Result<View<'_, u8>> {
        self.as_view().cast()
    }

    fn view_mut(&mut self) -> Result<ViewMut<'_, u8>> {
        self.as_view_mut().cast()
    }

    fn is_mapped(&self) -> bool {
        self.is_empty() || self.device_ptr().is_some()
    }
}

/// Moves the pages to the host, and waits for it. From then on, the host keeps them if copies end.
pub(crate) fn settle_on_host(memory: &mut dyn HostMemory, stream: &Stream) -> Result<()> {
    let view = memory.view()?;
    view.advise(Advice::SetPreferredLocation(Location::Host))?;
    view.advise(Advice::UnsetReadMostly)?;
    view.prefetch(Location::Host, stream)?;
    wait(memory)
}

/// Waits for all work that uses the memory.
fn wait(memory: &mut dyn HostMemory) -> Result<()> {
    memory.view_mut()?.host_mut().map(drop)
}

/// Enqueues a copy of the pages to the device. Those of the host stay.
pub(crate) fn copy_pages(memory: &dyn HostMemory, stream: &Stream) -> Result<()> {
    let view = memory.view()?;
    view.advise(Advice::SetReadMostly)?;
    let copied = view.prefetch(Location::from(&stream.device()), stream);
    if copied.is_err() {
        // A part may be on the device.
        let _ = view.advise(Advice::UnsetReadMostly);
    }
    copied
}

/// Ends the copy of the pages on the device, after the work that reads it.
pub(crate) fn drop_pages(memory: &mut Arc<dyn HostMemory>) -> Result<()> {
    if let Some(memory) = Arc::get_mut(memory) {
        wait(memory)?;
    }
    memory.view()?.advise(Advice::UnsetReadMostly)
}
