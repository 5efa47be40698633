//! Exports: tensors of DLPack over storage of this library.
#![allow(unsafe_code, reason = "hands out addresses")]

use std::ffi::c_void;

use dlpark::allocation::dynamic::Initialized;
use dlpark::ffi::{DLDevice, DLDeviceType};
use dlpark::metadata::Dynamic;
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use um_backend::{
    SharedBuffer,
    cuda_um::{MemoryKind, View},
    memory::BufferMemory,
};

use crate::buffer::DlpackBuffer;
use crate::dtype::to_dlpack;
use crate::error::{Error, Result};
use crate::layout::extents;
use crate::order::ConsumerOrder;

/// The device type of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// 2, CUDA: memory that kernels access. PyTorch and JAX accept managed memory only in this form.
    #[doc(alias = "kDLCUDA")]
    Cuda,
    /// 13, managed by CUDA: unified memory, by its name. CuPy accepts it.
    #[doc(alias = "kDLCUDAManaged")]
    Managed,
    /// 1, the CPU: memory that the host accesses. NumPy accepts it.
    #[doc(alias = "kDLCPU")]
    Host,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Cuda => "device type 2 (CUDA)",
            Self::Managed => "device type 13 (managed by CUDA)",
            Self::Host => "device type 1 (CPU)",
        }
    }
}

/// The form of an export.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ExportOptions<'a> {
    /// The device type. Default: 2 for device memory and unified memory, 1 for pinned memory and memory of the host. An empty buffer of a
    /// device has no memory, so that each type is allowed; the default is 2.
    pub target: Option<Target>,
    /// Whether the consumer must not write. Default: it may.
    pub read_only: bool,
    /// Whether the memory is a copy that only the consumer has. Default: it is none.
    pub is_copied: bool,
    /// The order of work. Default: [`ConsumerOrder::Wait`].
    pub ordering: ConsumerOrder<'a>,
}

impl Default for ExportOptions<'_> {
    fn default() -> Self {
        Self {
            target: None,
            read_only: false,
            is_copied: false,
            ordering: ConsumerOrder::Wait,
        }
    }
}

impl DlpackBuffer {
    /// Exports the elements without a copy, as a tensor of `M`: [`DLManagedTensorVersioned`](dlpark::ffi::DLManagedTensorVersioned), or
    /// [`DLManagedTensor`](dlpark::ffi::DLManagedTensor) for consumers from before DLPack 1.0.
    ///
    /// The tensor keeps the storage alive. Its deleter may run on any thread. If it drops the last handle, a thread of this crate waits for the
    /// device and frees the memory; [`settle`](crate::settle) waits for that thread.
    ///
    /// # Ordering
    /// This library's earlier work comes before the consumer's, as the options say. While the export lives, the methods of this type wait for the
    /// consumer's work so far.
    ///
    /// # Safety
    /// - While an export lives, the program uses the storage only through this type, and orders this library's later work before the
    ///   consumer's later work, and the consumer's later work before the elements of a host guard are accessed.
    /// - A consumer of a read-only export does not write.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::OpaqueDType`], [`Error::ReadOnlyNeedsVersion`]; [`Error::Target`] if the memory cannot have the device type;
    /// [`CudaError::WouldDeadlock`](um_backend::CudaError::WouldDeadlock) if this thread holds a write guard of the storage; and errors of CUDA.
    #[doc(alias = "__dlpack__")]
    pub unsafe fn export<M: ManagedTensorBase>(
        &self,
        shape: &[usize],
        options: &ExportOptions<'_>,
    ) -> Result<Managed<M>> {
        let storage = self.storage();
        let shape = extents(shape, storage.len())?;
        let dtype = to_dlpack(storage.dtype())?;
        let (device, data) = place(storage, options.target)?;
        let prepared = Dynamic::compact(shape).prepare_as::<M>();
        let prepared = prepared.map_err(|error| Error::Allocation(error.to_string()))?;
        options.ordering.apply(storage)?;
        let mut tensor = prepared.initialize(Box::new(self.lend()?));
        tensor.set_data(data).set_dtype(dtype).set_device(device);
        mark(&mut tensor, options);
        // SAFETY: the device, the type and the shape are those of the memory, which the loan keeps alive.
        let tensor = unsafe { tensor.finish() };
        match options.read_only && tensor.flags().is_empty() {
            true => Err(Error::ReadOnlyNeedsVersion),
            false => Ok(tensor),
        }
    }

    /// The address for kernels, for libraries that take it without DLPack, such as those that know the CUDA Array Interface. From then on the
    /// methods of this type always wait for the device, because such a library does not say when its use ends.
    ///
    /// # Safety
    /// As for [`export`](Self::export); this storage lives as long as the address is used.
    ///
    /// # Errors
    /// As for [`export`](Self::export).
    pub unsafe fn export_address(&self, ordering: ConsumerOrder<'_>) -> Result<*const c_void> {
        let (_, data) = place(self.storage(), Some(Target::Cuda))?;
        ordering.apply(self.storage())?;
        self.lend()?.for_good();
        Ok(data)
    }
}

/// The device of the export, and the address there.
fn place(storage: &SharedBuffer, target: Option<Target>) -> Result<(DLDevice, *mut c_void)> {
    let held = storage.read()?;
    match (held.bytes().memory(), target) {
        (BufferMemory::Cuda(view), target) => place_of_view(view, target),
        (BufferMemory::Host(bytes), None | Some(Target::Host)) => {
            Ok((DLDevice::CPU, bytes.as_ptr().cast_mut().cast()))
        }
        (BufferMemory::Host(_), Some(target)) => {
            let reason = "kernels do not reach it: copy it to a unified buffer";
            Err(refused("host memory", target, reason))
        }
        (_, target) => {
            let reason = "only its implementation reaches it: copy it";
            Err(refused(
                "opaque memory",
                target.unwrap_or(Target::Host),
                reason,
            ))
        }
    }
}

fn place_of_view(view: View<'_, u8>, target: Option<Target>) -> Result<(DLDevice, *mut c_void)> {
    let kind = view.kind();
    let target = target.unwrap_or(match kind {
        MemoryKind::Pinned | MemoryKind::System if !view.is_empty() => Target::Host,
        _ => Target::Cuda,
    });
    let is_concurrent = view.device().capabilities().concurrent_managed_access;
    let reason = match (target, kind) {
        _ if view.is_empty() => None,
        (Target::Cuda, _) if view.device_ptr().is_some() => None,
        (Target::Cuda, _) => Some("the device does not map it: copy it to a unified buffer"),
        (Target::Managed, MemoryKind::Managed) => None,
        (Target::Managed, _) => Some("it is not managed memory: request device type 2 (CUDA)"),
        (Target::Host, MemoryKind::Device) => Some("the host does not reach it: copy it"),
        (Target::Host, MemoryKind::Managed) if !is_concurrent => {
            Some("on this device the host must not access it while a kernel runs: use a host guard")
        }
        (Target::Host, _) => None,
    };
    if let Some(reason) = reason {
        // Not the words of the kind, which tell why the library chose it.
        return Err(refused(&kind.to_string(), target, reason));
    }
    let device_id = view.device().ordinal() as i32;
    let device = match target {
        Target::Cuda => DLDevice::cuda(device_id),
        Target::Managed => DLDevice {
            device_type: DLDeviceType::CUDAMANAGED,
            device_id,
        },
        Target::Host => DLDevice::CPU,
    };
    let address = match target {
        _ if view.is_empty() => None,
        Target::Cuda => view.device_ptr(),
        Target::Managed | Target::Host => Some(view.as_ptr()),
    };
    let address = address.map_or(std::ptr::null_mut(), <*const u8>::cast_mut);
    Ok((device, address.cast()))
}

fn refused(memory: &str, target: Target, reason: &'static str) -> Error {
    Error::Target {
        memory: memory.to_owned(),
        target: target.name(),
        reason,
    }
}

/// Sets the flags, which only the versioned form keeps.
fn mark<M: ManagedTensorBase>(tensor: &mut Initialized<M>, options: &ExportOptions<'_>) {
    let mut flags = DlpackFlags::empty();
    flags.set(DlpackFlags::READ_ONLY, options.read_only);
    flags.set(DlpackFlags::IS_COPIED, options.is_copied);
    // SAFETY: the caller says if the memory is a copy.
    unsafe { tensor.set_flags_unchecked(flags) };
}
