//! The lock of shared storage. It knows the threads that hold it, so a thread never waits for itself.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

use crate::buffer::Buffer;
use crate::device::BufferDevice;
use crate::error::{CudaError, Result};

type Bytes = Arc<dyn Buffer<u8>>;

pub(super) struct Storage {
    state: Mutex<State>,
    released: Condvar,
    device: BufferDevice,
    size_bytes: usize,
}

struct State {
    /// `None` while a writer has it.
    bytes: Option<Bytes>,
    readers: Vec<ThreadId>,
    writer: Option<ThreadId>,
    /// The threads that wait for write access: new readers wait for them.
    waiting_writers: usize,
}

/// Read access, with a share of the bytes.
pub(super) struct Reader {
    storage: Arc<Storage>,
    bytes: Option<Bytes>,
    thread: ThreadId,
}

/// Write access, with the only share of the bytes.
pub(super) struct Writer {
    storage: Arc<Storage>,
    bytes: Option<Bytes>,
}

impl Storage {
    pub(super) fn new(bytes: Box<dyn Buffer<u8>>) -> Self {
        Self {
            device: bytes.device().clone(),
            size_bytes: bytes.len(),
            released: Condvar::new(),
            state: Mutex::new(State {
                bytes: Some(Arc::from(bytes)),
                readers: Vec::new(),
                writer: None,
                waiting_writers: 0,
            }),
        }
    }

    pub(super) fn device(&self) -> &BufferDevice {
        &self.device
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub(super) fn read(self: &Arc<Self>, call: &'static str, waits: bool) -> Result<Reader> {
        let thread = thread::current().id();
        let mut state = self.state.lock();
        loop {
            // A thread that reads already must not wait for a writer, which waits for that thread.
            let has_way = state.waiting_writers == 0 || state.readers.contains(&thread);
            if let (Some(bytes), true) = (&state.bytes, has_way) {
                let bytes = Some(Arc::clone(bytes));
                state.readers.push(thread);
                return Ok(Reader {
                    storage: Arc::clone(self),
                    bytes,
                    thread,
                });
            }
            state.refuse(call, waits, thread)?;
            self.released.wait(&mut state);
        }
    }

    pub(super) fn write(self: &Arc<Self>, call: &'static str, waits: bool) -> Result<Writer> {
        let thread = thread::current().id();
        let mut state = self.state.lock();
        loop {
            if state.readers.is_empty()
                && let Some(bytes) = state.bytes.take()
            {
                state.writer = Some(thread);
                return Ok(Writer {
                    storage: Arc::clone(self),
                    bytes: Some(bytes),
                });
            }
            state.refuse(call, waits, thread)?;
            state.waiting_writers += 1;
            self.released.wait(&mut state);
            state.waiting_writers -= 1;
        }
    }
}

impl State {
    /// The error of a call that must not wait.
    fn refuse(&self, call: &'static str, waits: bool, thread: ThreadId) -> Result<()> {
        let held = match self.readers.len() {
            0 if self.writer.is_some() => "a write guard".to_owned(),
            0 => "a thread that waits for a write guard".to_owned(),
            1 => "a read guard".to_owned(),
            count => format!("{count} read guards"),
        };
        if !waits {
            Err(CudaError::StorageInUse { call, held })
        } else if self.writer == Some(thread) || self.readers.contains(&thread) {
            Err(CudaError::WouldDeadlock { call, held })
        } else {
            Ok(())
        }
    }
}

impl Reader {
    pub(super) fn bytes(&self) -> Option<&dyn Buffer<u8>> {
        self.bytes.as_deref()
    }
}

impl Writer {
    pub(super) fn bytes(&self) -> Option<&dyn Buffer<u8>> {
        self.bytes.as_deref()
    }

    pub(super) fn bytes_mut(&mut self) -> Option<&mut (dyn Buffer<u8> + 'static)> {
        Arc::get_mut(self.bytes.as_mut()?)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.storage.state.lock();
        // The share first: a writer needs the only one.
        self.bytes = None;
        if let Some(index) = state.readers.iter().position(|id| *id == self.thread) {
            state.readers.swap_remove(index);
        }
        if state.readers.is_empty() {
            self.storage.released.notify_all();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.storage.state.lock();
        state.bytes = self.bytes.take();
        state.writer = None;
        self.storage.released.notify_all();
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage")
            .field("size_bytes", &self.size_bytes)
            .finish_non_exhaustive()
    }
}
