//! Storage that other libraries use through its address.

use std::sync::Arc;

use um_backend::{
    Element, Result, SharedBuffer, SharedRead, SharedWrite,
    cuda_um::buffer::{HostOwned, HostOwnedMut},
};

use crate::error::Error;
use crate::loans::Loans;
use crate::returns;

/// Shared storage that other libraries may use through DLPack: [`export`](Self::export).
///
/// Their work on the memory is not known. So while an export lives, and once after it, [`read`](Self::read), [`write`](Self::write),
/// [`host`](Self::host) and [`host_mut`](Self::host_mut) wait for the device (`cudaDeviceSynchronize`), and so does the drop of the memory, on a
/// thread of this crate. A clone is the same storage.
#[derive(Clone)]
pub struct DlpackBuffer(Arc<Lent>);

/// The storage, and what other libraries may do with it.
pub(crate) struct Lent {
    /// `None` only in the drop.
    storage: Option<SharedBuffer>,
    loans: Loans,
}

impl DlpackBuffer {
    /// Takes storage. Other handles of it do not wait for the work of other libraries.
    #[must_use]
    pub fn new(storage: SharedBuffer) -> Self {
        Self(Arc::new(Lent {
            storage: Some(storage),
            loans: Loans::default(),
        }))
    }

    /// The storage. Its own methods do not wait for the work of other libraries: call [`settle`](Self::settle) before them.
    ///
    /// # Panics
    /// Never: only the drop takes it.
    #[must_use]
    pub fn storage(&self) -> &SharedBuffer {
        self.0.storage.as_ref().expect("taken in the drop")
    }

    /// Whether an export lives.
    #[must_use]
    pub fn is_exported(&self) -> bool {
        self.0.loans.is_live()
    }

    /// Waits for the device if work of another library may use the memory. Its work after that is ordered by its program.
    ///
    /// # Errors
    /// Errors of CUDA, also of that work.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn settle(&self) -> Result<()> {
        self.0.settle()
    }

    /// [`settle`](Self::settle), then [`SharedBuffer::read`].
    ///
    /// # Errors
    /// As for both.
    pub fn read(&self) -> Result<SharedRead> {
        self.settle()?;
        self.storage().read()
    }

    /// [`settle`](Self::settle), then [`SharedBuffer::write`].
    ///
    /// # Errors
    /// As for both.
    pub fn write(&self) -> Result<SharedWrite> {
        self.settle()?;
        self.storage().write()
    }

    /// [`settle`](Self::settle), then [`SharedBuffer::host`].
    ///
    /// # Errors
    /// As for both.
    pub fn host<T: Element>(&self) -> Result<HostOwned<T, SharedRead>> {
        self.settle()?;
        self.storage().host()
    }

    /// [`settle`](Self::settle), then [`SharedBuffer::host_mut`].
    ///
    /// # Errors
    /// As for both.
    pub fn host_mut<T: Element>(&self) -> Result<HostOwnedMut<T, SharedWrite>> {
        self.settle()?;
        self.storage().host_mut()
    }

    pub(crate) fn lend(&self) -> Result<Loan, Error> {
        if self.storage().device().is_some() {
            returns::start()?;
        }
        self.0.loans.begin();
        Ok(Loan(Some(Arc::clone(&self.0))))
    }
}

impl Lent {
    fn settle(&self) -> Result<()> {
        let storage = self.storage.as_ref();
        let device = storage.and_then(|storage| storage.device());
        self.loans
            .settle(|| device.map_or(Ok(()), |device| device.synchronize()))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.loans.is_unsettled()
            && let Some(storage) = self.storage.take()
            && storage.device().is_some()
        {
            returns::give_back(storage);
        }
    }
}

/// An export that lives. Its drop makes no call of CUDA, waits for nothing, and does not panic: it runs in deleters.
pub(crate) struct Loan(Option<Arc<Lent>>);

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(lent) = self.0.take() else { return };
        lent.loans.end();
        // Another thread may have waited since then, so that the memory is settled; even so it is not freed here.
        if let Some(storage) = Arc::into_inner(lent).and_then(|mut last| last.storage.take()) {
            match storage.device() {
                Some(_) => returns::give_back(storage),
                None => returns::free_now(storage),
            }
        }
    }
}

impl Loan {
    /// Lends the storage as long as it lives.
    pub(crate) fn for_good(self) {
        // It never ends; the handle is given back.
        if let Some(lent) = &self.0 {
            lent.loans.begin();
        }
    }
}
