//! Memory of homes, as bytes.

use std::sync::Arc;

use um_backend::cuda_um::{
    Advice, HintOutcome, Location, PinnedBuffer, RegisteredBuffer, Result, Stream, UnifiedBuffer,
    View, ViewMut,
};
use um_backend::{CudaError, Element};

/// Host memory that copy engines reach, or managed memory.
pub(crate) trait HostMemory: Send + Sync {
    fn view(&self) -> Result<View<'_, u8>>;
    fn view_mut(&mut self) -> Result<ViewMut<'_, u8>>;
    /// Whether kernels can use it, over the link.
    fn is_mapped(&self) -> bool;
}

macro_rules! host_memory {
    ($memory:ty, |$buffer:ident| $is_mapped:expr) => {
        impl<T: Element> HostMemory for $memory {
            fn view(&self) -> Result<View<'_, u8>> {
                self.as_view().cast()
            }

            fn view_mut(&mut self) -> Result<ViewMut<'_, u8>> {
                self.as_view_mut().cast()
            }

            fn is_mapped(&self) -> bool {
                let $buffer = self;
                $is_mapped
            }
        }
    };
}
host_memory!(PinnedBuffer<T>, |buffer| buffer.is_empty()
    || buffer.device_ptr().is_some());
host_memory!(RegisteredBuffer<'static, T>, |buffer| buffer.is_empty()
    || buffer.device_ptr().is_some());
host_memory!(UnifiedBuffer<T>, |_buffer| false);

/// Memory that no guard has. No guard reads it in place: only read-only buffers have such guards, and the host writes when there is none.
pub(crate) fn exclusive(
    memory: &mut Arc<dyn HostMemory>,
) -> um_backend::Result<&mut (dyn HostMemory + 'static)> {
    Arc::get_mut(memory).ok_or_else(|| CudaError::StorageInUse {
        call: "writing a home",
        held: "a guard that reads it".to_owned(),
    })
}

/// Moves the pages to the host, and waits for it. From then on, the host keeps them if copies end.
pub(crate) fn settle_on_host(memory: &mut ViewMut<'_, u8>, stream: &Stream) -> Result<()> {
    memory.advise(Advice::SetPreferredLocation(Location::Host))?;
    memory.advise(Advice::UnsetReadMostly)?;
    memory.prefetch_after_reads_on(Location::Host, stream)?;
    wait(memory)
}

/// Waits for all work that uses the memory.
fn wait(memory: &mut ViewMut<'_, u8>) -> Result<()> {
    memory.host_mut().map(drop)
}

/// Enqueues a copy of the pages to the device. Those of the host stay.
pub(crate) fn copy_pages(memory: View<'_, u8>, stream: &Stream) -> Result<()> {
    memory.advise(Advice::SetReadMostly)?.require()?;
    let copied = memory
        .prefetch_on(Location::from(&stream.device()), stream)
        .and_then(HintOutcome::require);
    if copied.is_err() {
        // A part may be on the device.
        let _ = memory.advise(Advice::UnsetReadMostly);
    }
    copied
}

/// Enqueues the move of the pages to the device.
pub(crate) fn move_pages(memory: View<'_, u8>, stream: &Stream) -> Result<()> {
    let moved = memory
        .prefetch_on(Location::from(&stream.device()), stream)
        .and_then(HintOutcome::require);
    if moved.is_err() {
        // A part may be on the device.
        let _ = memory.prefetch_on(Location::Host, stream);
    }
    moved
}

/// Enqueues the move of the pages to the device, without their contents. Returns false if CUDA transfers them nevertheless.
pub(crate) fn claim_pages(memory: &mut ViewMut<'_, u8>, stream: &Stream) -> Result<bool> {
    let claimed = memory.discard_and_prefetch_on(Location::from(&stream.device()), stream);
    if claimed.is_err() {
        let _ = memory.prefetch_on(Location::Host, stream);
    }
    claimed
}

/// Ends the copy of the pages on the device, after the work that reads it.
pub(crate) fn drop_pages(memory: &mut ViewMut<'_, u8>) -> Result<()> {
    wait(memory)?;
    memory.advise(Advice::UnsetReadMostly)?.require()
}
