//! Mapped files as buffers.
#![allow(
    unsafe_code,
    reason = "maps files; the caller of `map_files` promises that they stay"
)]

use std::collections::HashMap;

use um_backend::cuda_um::buffer::Runs;
use um_backend::cuda_um::{UnifiedBuffer, UnifiedOptions};
use um_backend::{CudaBackend, DType, Device, ErasedBuffer, SharedBuffer};

use crate::error::{Error, Result};
use crate::info::TensorInfo;
use crate::plan::{Plan, Wanted};
use crate::weights::Opened;

/// The tensors that are parts of mapped files.
pub(crate) struct Mapped {
    device: Option<Device>,
    pub(crate) tensors: Vec<(Wanted, SharedBuffer)>,
}

impl Mapped {
    /// Maps nothing unless it is wanted and the device reads the mapping itself.
    pub(crate) fn new(is_wanted: bool, backend: &CudaBackend) -> Self {
        let device: &Device = backend.device();
        let maps = is_wanted && device.capabilities().pageable_memory_access;
        Self {
            device: maps.then(|| device.clone()),
            tensors: Vec::new(),
        }
    }

    /// Takes those tensors that the mapping has as they are wanted.
    pub(crate) fn take(mut self, plan: &mut Plan, opened: &Opened) -> Result<Self> {
        let Some(device) = self.device.take() else {
            return Ok(self);
        };
        let mut files = HashMap::new();
        let fits = |wanted: &Wanted, runs: Runs| {
            let info = &opened.tensors[wanted.index];
            let dtype = info.dtype();
            let align = match dtype {
                DType::Opaque(_) => 1,
                dtype => dtype.size_bytes() as u64,
            };
            let is_file = opened.shards[info.shard].file.is_some();
            is_file && runs.count == 1 && runs.bytes > 0 && runs.offset.is_multiple_of(align)
        };
        for mut wanted in plan.split_off(fits) {
            let TensorInfo { name, shard, .. } = &opened.tensors[wanted.index];
            if let Some(file) = &opened.shards[*shard].file
                && !files.contains_key(shard)
            {
                let options = UnifiedOptions::default();
                // SAFETY: the caller of `LoadOptions::map_files` promises that nothing changes the file.
                let mapped = unsafe { UnifiedBuffer::<u8>::map_file(&device, file, .., options) };
                let mapped =
                    mapped.and_then(|all| ErasedBuffer::from_bytes(Box::new(all), DType::U8));
                let mapped = mapped.map_err(Error::of_cuda(name))?;
                files.insert(*shard, SharedBuffer::new(mapped));
            }
            wanted.at = plan.runs(&wanted).offset as usize;
            self.tensors.push((wanted, files[shard].clone()));
        }
        Ok(self)
    }
}
