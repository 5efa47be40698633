//! The device, and tensors that own unified memory.

use crate::element::{Element, check_shape, on_cuda, part};
use crate::error::{Error, Result};
use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, CudaDevice, CudaStorage, DType, Device, Shape, Storage, Tensor};
use cuda_um::{MemoryKind, PoolOptions, Runtime, UnifiedBuffer, resource::DriverPool};
use half::{bf16, f16};
use um_cudarc::{SharedDevice, SharedStream};

/// A CUDA device of candle together with the same device of cuda-um.
///
/// Functions that take a tensor want one on this device. Ordinary tensors of candle work beside unified ones in all operations.
#[derive(Clone, Debug)]
pub struct UnifiedDevice {
    candle: CudaDevice,
    shared: SharedDevice,
    /// Candle's stream.
    stream: SharedStream,
    /// Before CUDA 13.0 there is none.
    pool: Option<DriverPool>,
}

impl UnifiedDevice {
    /// Joins candle's device with the runtime's device of the same ordinal.
    ///
    /// # Errors
    ///
    /// [`Error::NotCuda`]; `InvalidArgument` of cuda-um for a device of `Device::new_cuda`, whose stream is another one on each thread;
    /// `NotSupported` of cuda-um without concurrent managed access, because candle's kernels are not known; and the
    /// errors of [`SharedDevice::new`] and [`DriverPool::new`].
    pub fn new(device: &Device, runtime: &Runtime) -> Result<Self> {
        let Device::Cuda(candle) = device else {
            return Err(Error::NotCuda {
                found: device.location(),
            });
        };
        let shared = SharedDevice::new(candle.cuda_stream().context(), runtime)?;
        let ours = shared.device();
        if !ours.capabilities().concurrent_managed_access {
            return Err(cuda_um::Error::NotSupported {
                what: "unified memory for candle".to_owned(),
                needs: "concurrent managed access, because the kernels of candle are not known"
                    .to_owned(),
                have: format!(
                    "device {} ({}), which does not have it",
                    ours.ordinal(),
                    ours.name()
                ),
            }
            .into());
        }
        let pool = match DriverPool::new(ours, MemoryKind::Managed, PoolOptions::default()) {
            Ok(pool) => Some(pool),
            Err(error) if error.kind() == cuda_um::ErrorKind::NotSupported => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            candle: candle.clone(),
            stream: shared.adopt(&candle.cuda_stream())?,
            shared,
            pool,
        })
    }

    /// Candle's device.
    pub fn candle(&self) -> &CudaDevice {
        &self.candle
    }

    /// The device of cuda-um.
    pub fn ours(&self) -> &cuda_um::Device {
        self.shared.device()
    }

    /// The pool of the tensors' memory. Before CUDA 13.0, an error: [`lend`](Self::lend) works there.
    ///
    /// # Errors
    ///
    /// `NotSupported` of cuda-um, with the reason.
    pub fn pool(&self) -> Result<&DriverPool> {
        if self.pool.is_none() {
            DriverPool::new(self.ours(), MemoryKind::Managed, PoolOptions::default())?;
        }
        self.pool.as_ref().ok_or_else(|| {
            cuda_um::Error::NotSupported {
                what: "a managed pool".to_owned(),
                needs: "a device that has it when the `UnifiedDevice` is made".to_owned(),
                have: format!("device {}", self.ours().ordinal()),
            }
            .into()
        })
    }

    /// Makes a tensor of zeros in unified memory. It owns its memory, and candle frees it.
    ///
    /// # Errors
    ///
    /// The errors of [`pool`](Self::pool) and of the allocation.
    pub fn zeros<T: Element>(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        let buffer = UnifiedBuffer::<T>::zeroed_in(self.pool()?, shape.elem_count())?;
        self.own(buffer, shape)
    }

    /// Makes a tensor of these elements in unified memory.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`], and the errors of [`zeros`](Self::zeros).
    pub fn from_slice<T: Element>(&self, data: &[T], shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        check_shape(data.len(), &shape)?;
        self.own(UnifiedBuffer::from_slice_in(self.pool()?, data)?, shape)
    }

    /// Copies a contiguous tensor of the CPU or of this device to unified memory.
    ///
    /// # Ordering
    ///
    /// The copy of a tensor on the device is work of candle's stream.
    ///
    /// # Errors
    ///
    /// [`Error::NotContiguous`]; [`Error::OtherDevice`] for another GPU; [`Error::Unsupported`]; and the errors of [`zeros`](Self::zeros).
    pub fn copy(&self, tensor: &Tensor) -> Result<Tensor> {
        match tensor.dtype() {
            DType::U8 => self.copy_as::<u8>(tensor),
            DType::U32 => self.copy_as::<u32>(tensor),
            DType::I16 => self.copy_as::<i16>(tensor),
            DType::I32 => self.copy_as::<i32>(tensor),
            DType::I64 => self.copy_as::<i64>(tensor),
            DType::F16 => self.copy_as::<f16>(tensor),
            DType::BF16 => self.copy_as::<bf16>(tensor),
            DType::F32 => self.copy_as::<f32>(tensor),
            DType::F64 => self.copy_as::<f64>(tensor),
            found => Err(Error::Unsupported { found }),
        }
    }

    fn copy_as<T: Element>(&self, tensor: &Tensor) -> Result<Tensor> {
        let (storage, layout) = tensor.storage_and_layout();
        let (part, shape) = (part(layout)?, layout.shape().clone());
        if let Storage::Cpu(storage) = &*storage {
            let elements = CpuStorage::as_slice::<T>(storage)?;
            return self.from_slice(&elements[part], shape);
        }
        let source = self.check(&storage)?;
        let buffer = UnifiedBuffer::<T>::zeroed_in(self.pool()?, part.len())?;
        if part.is_empty() {
            return self.own(buffer, shape);
        }
        let mut target = self.give(buffer)?;
        let source = source.as_cuda_slice::<T>()?.slice(part);
        self.candle.memcpy_dtod(&source, &mut target)?;
        Ok(self.tensor(target, shape))
    }

    /// Gives a buffer's memory to a tensor.
    fn own<T: Element>(&self, buffer: UnifiedBuffer<T>, shape: Shape) -> Result<Tensor> {
        if buffer.is_empty() {
            // It has no memory that could be given.
            let device = Device::Cuda(self.candle.clone());
            return Ok(Tensor::zeros(shape, T::DTYPE, &device)?);
        }
        let slice = self.give(buffer)?;
        Ok(self.tensor(slice, shape))
    }

    fn give<T: Element>(&self, buffer: UnifiedBuffer<T>) -> Result<CudaSlice<T>> {
        let given = self.stream.give(buffer);
        given.map_err(|(_, error)| error.into())
    }

    /// A tensor of a slice that has as many elements as the shape.
    pub(crate) fn tensor<T: Element>(&self, slice: CudaSlice<T>, shape: Shape) -> Tensor {
        let storage = CudaStorage::wrap_cuda_slice(slice, self.candle.clone());
        Tensor::from_storage(Storage::Cuda(storage), shape, BackpropOp::none(), false)
    }

    pub(crate) fn shared(&self) -> &SharedDevice {
        &self.shared
    }

    pub(crate) fn stream(&self) -> &SharedStream {
        &self.stream
    }

    /// The storage, if it is on this device.
    pub(crate) fn check<'s>(&self, storage: &'s Storage) -> Result<&'s CudaStorage> {
        let expected = Device::Cuda(self.candle.clone()).location();
        let found = storage.device().location();
        match on_cuda(storage) {
            Some(storage) if found == expected => Ok(storage),
            _ => Err(Error::OtherDevice {
                what: "the tensor",
                expected,
                found,
            }),
        }
    }
}

pub(crate) type CudaSlice<T> = candle_core::cuda::cudarc::driver::CudaSlice<T>;
