//! Files of weights for candle's `VarBuilder`.
#![allow(
    unsafe_code,
    reason = "allocates memory without zeros, and lends that of tensors to a load"
)]

use crate::element::{StorageSlice, with_slice};
use crate::error::Result;
use crate::lend::address_of;
use candle_core::backend::BackendDevice;
use candle_core::cpu_backend::CpuDevice;
use candle_core::op::BackpropOp;
use candle_core::safetensors::SliceSafetensors;
use candle_core::{CpuStorage, CudaDevice, DType, Device, Error, Shape, Storage, Tensor};
use candle_nn::var_builder::SimpleBackend;
use cuda_um::{DeviceBuffer, Runtime};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use um_cudarc::SharedDevice;
use um_weights::um_backend::memory::BufferMemoryMut;
use um_weights::{LoadOptions, TensorInfo, Weights};

/// The tensors of safetensors files and of GGUF files without quantised types, for candle's
/// [`VarBuilder`](candle_nn::VarBuilder).
///
/// Tensors are those of `VarBuilder::from_mmaped_safetensors`, and so are the errors for missing names and wrong shapes. Several threads read the
/// files straight into pinned memory for the GPU, or into candle's memory on the CPU.
///
/// ```no_run
/// use candle_core::{DType, Device};
/// use candle_nn::VarBuilder;
/// use um_candle::LoadedWeights;
/// use um_weights::Weights;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::new_cuda(0)?;
/// let loaded = LoadedWeights::load(&Weights::open(["model.safetensors"])?, &device, |_| true)?;
/// let builder = VarBuilder::from_backend(Box::new(loaded), DType::BF16, device);
/// let head = candle_nn::linear(4096, 32000, builder.pp("lm_head"))?;
/// # Ok(())
/// # }
/// ```
pub struct LoadedWeights {
    weights: Weights,
    /// On other devices, tensors are loaded to the CPU first.
    cuda: Option<(CudaDevice, SharedDevice)>,
    /// Those that were not handed out.
    loaded: Mutex<HashMap<String, Tensor>>,
}

impl LoadedWeights {
    /// Loads those tensors for whose name `only` returns true, all at once. Each is handed out at its first use, and candle owns its memory
    /// then; other tensors of the files, and further uses, are loaded one by one.
    ///
    /// # Errors
    ///
    /// The errors of [`Weights::load_into`], of candle's allocation, and for a GPU of [`Runtime::open`] and [`SharedDevice::new`].
    pub fn load(weights: &Weights, device: &Device, only: impl Fn(&str) -> bool) -> Result<Self> {
        let cuda = match device {
            Device::Cuda(candle) => {
                let context = candle.cuda_stream();
                let shared = SharedDevice::new(context.context(), &Runtime::open()?)?;
                Some((candle.clone(), shared))
            }
            _ => None,
        };
        let mut this = Self {
            weights: weights.clone(),
            cuda,
            loaded: Mutex::default(),
        };
        let infos = weights.tensors().iter();
        let infos: Vec<_> = infos
            .filter(|info| dtype_of(info).is_some() && only(info.name()))
            .collect();
        let tensors = this.tensors(&infos)?;
        let names = infos.iter().map(|info| info.name().to_owned());
        this.loaded = Mutex::new(names.zip(tensors).collect());
        Ok(this)
    }

    /// Loads tensors whose type candle computes with.
    fn tensors(&self, infos: &[&TensorInfo]) -> Result<Vec<Tensor>> {
        let storages = infos.iter().map(|info| self.allocate(info));
        let mut storages = storages.collect::<Result<Vec<_>>>()?;
        if let Some((candle, _)) = &self.cuda {
            // Allocations are work of candle's stream.
            candle.synchronize()?;
        }
        let mut lent = Vec::new();
        let mut targets = Vec::with_capacity(infos.len());
        for (info, storage) in infos.iter().zip(&mut storages) {
            match (storage, &self.cuda) {
                (Storage::Cpu(storage), _) => {
                    let bytes = with_slice!(CpuStorage, storage, slice => bytes_of(slice));
                    targets.push((
                        info.name(),
                        BufferMemoryMut::Host(bytes.unwrap_or_default()),
                    ));
                }
                (Storage::Cuda(storage), Some((_, shared))) if info.size_bytes() > 0 => {
                    let address =
                        with_slice!(StorageSlice, &storage.slice, slice => address_of(slice));
                    let pointer = NonNull::new(address.unwrap_or_default() as *mut u8);
                    let (device, bytes) = (shared.device(), info.size_bytes());
                    // SAFETY: the slice has these bytes, and is not used until all work of the device is done.
                    let buffer = unsafe {
                        DeviceBuffer::from_foreign(
                            device,
                            pointer.unwrap_or(NonNull::dangling()),
                            bytes,
                            (),
                        )
                    };
                    lent.push((info.name(), buffer?));
                }
                _ => {}
            }
        }
        let views = lent.iter_mut();
        targets.extend(
            views.map(|(name, buffer)| (*name, BufferMemoryMut::Cuda(buffer.as_view_mut()))),
        );
        let end = End(self.cuda.as_ref().map(|(_, shared)| shared));
        let loaded = self.weights.load_into(targets, &LoadOptions::default());
        end.wait()?;
        loaded?;
        let tensor = |(info, storage): (&&TensorInfo, _)| {
            Tensor::from_storage(storage, info.shape(), BackpropOp::none(), false)
        };
        Ok(infos.iter().zip(storages).map(tensor).collect())
    }

    /// Memory of candle for a tensor.
    fn allocate(&self, info: &TensorInfo) -> Result<Storage> {
        let (shape, dtype) = (
            Shape::from(info.shape()),
            dtype_of(info).unwrap_or(DType::U8),
        );
        Ok(match &self.cuda {
            // SAFETY: the load writes each byte, or the memory is dropped.
            Some((candle, _)) => Storage::Cuda(unsafe { candle.alloc_uninit(&shape, dtype) }?),
            None => Storage::Cpu(CpuDevice.zeros_impl(&shape, dtype)?),
        })
    }

    /// The tensor on a device, as candle's own loader makes it.
    fn take(&self, info: &TensorInfo, device: &Device) -> candle_core::Result<Tensor> {
        if dtype_of(info).is_none() {
            return self.converted(info, device);
        }
        let taken = self
            .loaded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(info.name());
        let tensor = match taken {
            Some(tensor) => tensor,
            None => self.tensors(&[info]).map_err(Error::wrap)?.remove(0),
        };
        tensor.to_device(device)
    }

    /// A tensor of a type that candle converts, only stores, or refuses: candle reads a file in memory that has only this tensor.
    fn converted(&self, info: &TensorInfo, device: &Device) -> candle_core::Result<Tensor> {
        let (name, bytes) = (info.name(), info.size_bytes());
        let (dtype, shape) = (info.dtype_name(), info.shape());
        let header = format!(
            r#"{{"t":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[0,{bytes}]}}}}"#
        );
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        let start = file.len();
        file.resize(start + bytes, 0);
        let target = BufferMemoryMut::Host(&mut file[start..]);
        self.weights
            .load_into(vec![(name, target)], &LoadOptions::default())
            .map_err(Error::wrap)?;
        let file = SliceSafetensors::new(&file).map_err(|_| {
            Error::msg(format!(
                "tensor {name} has the type {dtype}: use candle's quantized VarBuilder"
            ))
        })?;
        file.load("t", device)
    }

    fn info(&self, name: &str) -> candle_core::Result<&TensorInfo> {
        let missing = || {
            Error::CannotFindTensor {
                path: name.to_owned(),
            }
            .bt()
        };
        self.weights.tensor(name).ok_or_else(missing)
    }
}

/// Waits for a load, also if it panics: a file of the caller's can, with pieces in flight to memory that is freed then.
struct End<'a>(Option<&'a SharedDevice>);

impl End<'_> {
    fn wait(mut self) -> cuda_um::Result<()> {
        let shared = self.0.take();
        shared.map_or(Ok(()), |shared| shared.device().synchronize())
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            // If this fails, the context does no more work.
            let _ = shared.device().synchronize();
        }
    }
}

impl SimpleBackend for LoadedWeights {
    fn get(
        &self,
        expected: Shape,
        name: &str,
        _: candle_nn::Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let info = self.info(name)?;
        if info.shape() != expected.dims() {
            return Err(Error::UnexpectedShape {
                msg: format!("shape mismatch for {name}"),
                expected,
                got: Shape::from(info.shape()),
            }
            .bt());
        }
        self.take(info, device)?.to_dtype(dtype)
    }

    fn get_unchecked(
        &self,
        name: &str,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.take(self.info(name)?, device)?.to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.weights.tensor(name).is_some()
    }
}

impl std::fmt::Debug for LoadedWeights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedWeights")
            .field("weights", &self.weights)
            .finish_non_exhaustive()
    }
}

/// The type of candle whose bytes are those of the file, if candle computes with it.
fn dtype_of(info: &TensorInfo) -> Option<DType> {
    Some(match info.dtype_name() {
        "U8" => DType::U8,
        "U32" => DType::U32,
        "I16" => DType::I16,
        "I32" => DType::I32,
        "I64" => DType::I64,
        "BF16" => DType::BF16,
        "F16" => DType::F16,
        "F32" => DType::F32,
        "F64" => DType::F64,
        "F8_E4M3" => DType::F8E4M3,
        _ => return None,
    })
}

fn bytes_of<T: candle_core::WithDType>(elements: &mut [T]) -> &mut [u8] {
    let bytes = size_of_val(elements);
    // SAFETY: these are numbers without padding, for which all bytes are valid.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), bytes) }
}
