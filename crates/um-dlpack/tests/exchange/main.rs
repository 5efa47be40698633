//! Tensors between this library and another one, which the tests play.
#![allow(
    unsafe_code,
    reason = "exports and imports are promises of the program"
)]

mod exports;
mod imports;
mod lifetimes;
mod types;
mod wrong_uses;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use cuda_um_testkit::Checked;
use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType, DLManagedTensorVersioned};
use dlpark::metadata::Dynamic;
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use um_backend::sim::{Builder, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
use um_dlpack::{DlpackBuffer, ExportOptions, Imported, dlpark, import, versioned};

const ON_DEVICE: [BufferKind; 3] = [BufferKind::Unified, BufferKind::Cuda, BufferKind::Pinned];

fn machine() -> (Checked, CudaBackend) {
    machine_with(|builder| builder)
}

fn machine_with(settings: impl FnOnce(Builder) -> Builder) -> (Checked, CudaBackend) {
    let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
    let sim: Sim = settings(builder).build().unwrap();
    let config = CudaBackendConfig::default().simulator(sim.clone());
    (
        Checked::new(sim),
        CudaBackend::initialize_blocking(config).unwrap(),
    )
}

/// Six elements: 1 to 6.
fn buffer(backend: &CudaBackend, kind: BufferKind) -> DlpackBuffer {
    let bytes: Vec<u8> = (1..7u32).flat_map(u32::to_ne_bytes).collect();
    let erased = backend
        .create_erased_from(kind, DType::U32, &bytes)
        .unwrap();
    DlpackBuffer::new(SharedBuffer::new(erased))
}

fn export(buffer: &DlpackBuffer) -> versioned::Dlpack {
    export_as(buffer, |_| {}).unwrap()
}

fn export_as<'a, M: ManagedTensorBase>(
    buffer: &DlpackBuffer,
    settings: impl FnOnce(&mut ExportOptions<'a>),
) -> um_dlpack::Result<Managed<M>> {
    let mut options = ExportOptions::default();
    settings(&mut options);
    // SAFETY: the tests order their work.
    unsafe { buffer.export(&[2, 3], &options) }
}

fn import_of(tensor: versioned::Dlpack, backend: &CudaBackend) -> um_dlpack::Result<Imported> {
    // SAFETY: the tensors of the tests have the memory that they say, or are refused.
    unsafe { import(tensor, backend) }
}

fn elements(imported: &Imported) -> Vec<u32> {
    imported.buffer.typed::<u32>().unwrap().to_vec().unwrap()
}

/// A tensor of another library, and the number of its deleter's runs.
struct Theirs {
    device: (u32, i32),
    data: *const c_void,
    dtype: DLDataType,
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    byte_offset: u64,
    flags: DlpackFlags,
}

impl Theirs {
    fn of<T>(device_type: u32, data: *const T, len: usize) -> Self {
        Self {
            device: (device_type, 0),
            data: data.cast(),
            dtype: DLDataType::of::<u32>(),
            shape: vec![len as i64],
            strides: None,
            byte_offset: 0,
            flags: DlpackFlags::empty(),
        }
    }

    /// `owner` lives as long as the tensor.
    fn tensor(self, owner: impl Send + 'static) -> (versioned::Dlpack, Arc<AtomicUsize>) {
        struct Counted<T>(T, Arc<AtomicUsize>);
        impl<T> Drop for Counted<T> {
            fn drop(&mut self) {
                let _ = &self.0;
                self.1.fetch_add(1, SeqCst);
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let strides = self
            .strides
            .unwrap_or_else(|| dlpark::tensor::compact_strides(&self.shape).unwrap());
        let prepared = Dynamic::new(self.shape, strides)
            .prepare_as::<DLManagedTensorVersioned>()
            .unwrap();
        let mut tensor = prepared.initialize(Box::new(Counted(owner, Arc::clone(&drops))));
        let (device_type, device_id) = self.device;
        tensor.set_device(DLDevice {
            device_type: DLDeviceType(device_type),
            device_id,
        });
        tensor
            .set_data(self.data.cast_mut())
            .set_dtype(self.dtype)
            .set_byte_offset(self.byte_offset);
        tensor.set_flags(self.flags).unwrap();
        // SAFETY: the tests say what the memory is, or expect a refusal.
        (unsafe { tensor.finish() }, drops)
    }
}
