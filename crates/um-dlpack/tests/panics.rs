//! Foreign code that panics at the end of exports. In a process of its own, because the error is that of the next `settle` on any thread.
#![allow(unsafe_code, reason = "exports are promises of the program")]

use std::any::Any;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use um_backend::sim::Sim;
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaBackendConfig, DType, Device, ErasedBuffer, Result,
    SharedBuffer,
    memory::{BufferMemory, BufferMemoryMut},
};
use um_dlpack::dlpark::{ManagedTensorBase, ffi::DLManagedTensorVersioned};
use um_dlpack::{DlpackBuffer, ExportOptions, versioned};

/// A payload whose drop panics.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("the payload");
    }
}

/// A buffer of a framework whose drop panics.
#[derive(Debug)]
struct Theirs {
    bytes: Box<dyn Buffer<u8>>,
    drops: Arc<AtomicUsize>,
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
        panic_any(Payload);
    }
}

impl Buffer<u8> for Theirs {
    fn len(&self) -> usize {
        self.bytes.len()
    }
    fn device(&self) -> Option<&Device> {
        self.bytes.device()
    }
    fn memory(&self) -> BufferMemory<'_, u8> {
        self.bytes.memory()
    }
    fn memory_mut(&mut self) -> BufferMemoryMut<'_, u8> {
        self.bytes.memory_mut()
    }
    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<u8>>> {
        self.bytes.clone_empty(len)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn tensor(storage: ErasedBuffer) -> versioned::Dlpack {
    let buffer = DlpackBuffer::new(SharedBuffer::new(storage));
    let shape = [buffer.storage().len()];
    // SAFETY: nothing consumes the tensor.
    unsafe { buffer.export(&shape, &ExportOptions::default()) }.unwrap()
}

#[test]
fn the_thread_survives_a_drop_and_a_payload_that_panic_and_deleters_do_not_panic() {
    let sim = Sim::from_env().unwrap();
    let config = CudaBackendConfig::default().simulator(sim.clone());
    let backend = CudaBackend::initialize_blocking(config).unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let theirs = |kind| {
        let bytes = backend.create::<u8>(kind, 64).unwrap();
        let theirs = Theirs {
            bytes,
            drops: Arc::clone(&drops),
        };
        ErasedBuffer::from_bytes(Box::new(theirs), DType::U8).unwrap()
    };
    for (number, kind) in [BufferKind::Cuda, BufferKind::Host].into_iter().enumerate() {
        let raw = tensor(theirs(kind)).into_raw();
        // SAFETY: the tensor is this test's, and is not used again. A panic would end the process.
        unsafe { DLManagedTensorVersioned::drop_raw(raw) };
        let settled = um_dlpack::settle();
        assert_eq!(drops.load(SeqCst), number + 1);
        match kind {
            BufferKind::Cuda => assert!(settled.unwrap_err().to_string().contains("panic")),
            _ => settled.unwrap(),
        }
    }
    // The thread still waits for the device before it frees memory.
    let before = cuda_um_testkit::calls(&sim, "cudaDeviceSynchronize");
    drop(tensor(
        backend
            .create_erased(BufferKind::Cuda, DType::U8, 64)
            .unwrap(),
    ));
    um_dlpack::settle().unwrap();
    assert!(cuda_um_testkit::calls(&sim, "cudaDeviceSynchronize") > before);
}
