//! The bytes of a part of shared storage, as a buffer that keeps the access.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use cuda_um::{Device, range};

use super::storage::{Access, Bytes, Handle};
use crate::buffer::Buffer;
use crate::error::{CudaError, Result};
use crate::memory::{BufferMemory, BufferMemoryMut};

pub(super) struct Part {
    storage: Handle,
    access: Access,
    thread: ThreadId,
    /// A share of them to read, or the only share to write. Until the access ends.
    bytes: Option<Bytes>,
    range: Range<usize>,
}

impl Part {
    /// A part of the bytes that this thread has just taken.
    pub(super) fn new(storage: &Handle, access: Access, bytes: Bytes, range: Range<usize>) -> Self {
        Self {
            storage: storage.clone(),
            access,
            thread: thread::current().id(),
            bytes: Some(bytes),
            range,
        }
    }

    fn bytes(&self) -> &dyn Buffer<u8> {
        self.bytes.as_deref().expect("the access has not ended")
    }

    /// An error for a reader, whose bytes nothing borrows exclusively.
    fn bytes_mut(&mut self) -> Result<&mut (dyn Buffer<u8> + 'static)> {
        let only_share = match self.access {
            Access::Read => None,
            Access::Write => self.bytes.as_mut().and_then(Arc::get_mut),
        };
        only_share.ok_or_else(|| CudaError::NotSupported {
            what: "a write of shared storage".to_owned(),
            needs: "a write guard".to_owned(),
            have: "a read guard".to_owned(),
        })
    }

    fn start(&self, offset: usize, count: usize) -> Result<usize> {
        let part = range::check_at(offset, count, self.range.len())?;
        Ok(self.range.start + part.start)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.storage.end(self.access, self.thread, &mut self.bytes);
    }
}

impl Buffer<u8> for Part {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn device(&self) -> Option<&Device> {
        self.bytes().device()
    }

    fn memory(&self) -> BufferMemory<'_, u8> {
        self.bytes().memory().part(self.range.clone())
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, u8> {
        let range = self.range.clone();
        match self.bytes_mut() {
            Ok(bytes) => bytes.memory_mut().part(range),
            Err(_) => BufferMemoryMut::Opaque,
        }
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<u8>>> {
        self.bytes().clone_empty(len)
    }

    as_any!();

    fn set_name(&mut self, name: &str) {
        if let Ok(bytes) = self.bytes_mut() {
            bytes.set_name(name);
        }
    }

    fn name(&self) -> Option<&str> {
        self.bytes().name()
    }

    fn copy_from_host_at(&mut self, offset: usize, source: &[u8]) -> Result<()> {
        let start = self.start(offset, source.len())?;
        self.bytes_mut()?.copy_from_host_at(start, source)
    }

    fn copy_to_host_at(&self, offset: usize, target: &mut [u8]) -> Result<()> {
        let start = self.start(offset, target.len())?;
        self.bytes().copy_to_host_at(start, target)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("range", &self.range)
            .field("of", &self.bytes())
            .finish()
    }
}
