//! The order of this library's work and that of other libraries.
#![allow(unsafe_code, reason = "orders work by an export that ends at once")]

use std::sync::Arc;

use um_backend::{
    ErasedBuffer, SharedBuffer, Stream,
    cuda_um::{View, buffer::Exported},
    memory::BufferMemory,
};

use crate::error::Result;

/// The order of the work before an export and the consumer's work.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum ConsumerOrder<'a> {
    /// The call waits until earlier work on the memory is done.
    Wait,
    /// Later work on the stream, which is the consumer's, comes after earlier work on the memory. For the default stream of a thread, which no
    /// [`Stream`] is, take [`Wait`](Self::Wait).
    Stream(&'a Stream),
    /// The consumer orders its work itself: `stream=-1` in Python.
    Consumer,
}

impl ConsumerOrder<'_> {
    /// Orders the work. The consumer's stream is used only during the call: the consumer may destroy it later.
    pub(crate) fn apply(self, storage: &SharedBuffer) -> Result<()> {
        let Some(device) = storage.device() else {
            return Ok(());
        };
        let own = &device.default_stream()?;
        match self {
            Self::Consumer => {}
            Self::Wait => {
                after_earlier_work(own, storage)?;
                own.synchronize()?;
            }
            Self::Stream(theirs) => {
                after_earlier_work(own, storage)?;
                theirs.wait(&own.record()?)?;
            }
        }
        Ok(())
    }
}

/// Orders later work on the stream after all earlier work on the memory, by an export that ends at once. Then the next use of the memory waits
/// for the device, as it does anyway after an export.
fn after_earlier_work(stream: &Stream, storage: &SharedBuffer) -> Result<()> {
    // SAFETY: no other library uses the memory through this export.
    let exported =
        match unsafe { Exported::new_mut(Arc::new(storage.read()?.into_erased()), stream, view) } {
            // What is only read waits only for writes and moves.
            Err(um_backend::cuda_um::Error::ReadOnly { .. }) => {
                Exported::new(Arc::new(storage.read()?.into_erased()), stream, view)
            }
            exported => exported,
        };
    drop(exported?);
    Ok(())
}

fn view(held: &ErasedBuffer) -> um_backend::cuda_um::Result<View<'_, u8>> {
    match held.bytes().memory() {
        BufferMemory::Cuda(view) => Ok(view),
        _ => Err(um_backend::cuda_um::Error::NotSupported {
            what: "the order of work on memory".to_owned(),
            needs: "memory of CUDA".to_owned(),
            have: "other memory".to_owned(),
        }),
    }
}
