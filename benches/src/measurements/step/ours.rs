//! A step with the buffers of cuda-um.
#![allow(
    unsafe_code,
    reason = "launches the kernel of the step, on temporaries with undefined numbers"
)]

use super::plan::{Operations, SLOTS, STREAMS};
use crate::Bench;
use crate::measurements::measurement::FACTOR;
use crate::raw::SCALE_IN_PLACE;
use anyhow::{Context, Result};
use cuda_um::{
    DeviceBuffer, Kernel, LaunchConfig, Memory, Module, Stream, UnifiedBuffer, buffer::kind::Owned,
    constant, kernel::WriteArg,
};
use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, DType, RuntimeChoice};

/// A temporary of the library.
pub(super) trait Temporary {
    fn scale(&mut self, kernel: &Kernel, stream: &Stream) -> Result<()>;
    fn read(&self, target: &mut [f32]) -> Result<()>;
}

impl<K: Owned> Temporary for Memory<f32, K> {
    fn scale(&mut self, kernel: &Kernel, stream: &Stream) -> Result<()> {
        launch(kernel, stream, self)
    }

    fn read(&self, target: &mut [f32]) -> Result<()> {
        Ok(self.copy_to_host_at(0, target)?)
    }
}

impl Temporary for Box<dyn Buffer<f32>> {
    fn scale(&mut self, kernel: &Kernel, stream: &Stream) -> Result<()> {
        launch(kernel, stream, self.memory_mut().device_view_mut()?)
    }

    fn read(&self, target: &mut [f32]) -> Result<()> {
        Ok(self.copy_to_host_at(0, target)?)
    }
}

fn launch(kernel: &Kernel, stream: &Stream, data: impl WriteArg<f32>) -> Result<()> {
    let data = data.into_view_mut()?;
    let len = data.len();
    let config = LaunchConfig::linear(len, 256);
    // SAFETY: the arguments are those of scale_in_place.ptx, which reads and writes `len` elements.
    unsafe {
        kernel.launch(
            stream,
            config,
            (data, constant(FACTOR), constant(len as u64)),
        )?
    };
    Ok(())
}

/// The contender with one kind of buffer.
pub(super) struct Ours<'a, B, N, F> {
    bench: &'a Bench,
    kernel: Kernel,
    pub(super) streams: [Stream; STREAMS],
    pub(super) slots: Vec<Option<B>>,
    /// Makes a temporary for kernels to write.
    new: N,
    /// Makes a temporary with the contents of a slice.
    pub(super) filled: F,
}

impl<'a, B, N, F> Ours<'a, B, N, F>
where
    B: Temporary,
    N: Fn(usize) -> Result<B>,
    F: Fn(&[f32]) -> Result<B>,
{
    fn open(bench: &'a Bench, new: N, filled: F) -> Result<Self> {
        let device = &bench.device;
        Ok(Self {
            bench,
            kernel: Module::load(device, SCALE_IN_PLACE)?.kernel("scale_in_place_f32")?,
            streams: [device.create_stream()?, device.create_stream()?],
            slots: (0..SLOTS).map(|_| None).collect(),
            new,
            filled,
        })
    }
}

/// A contender with these buffers.
macro_rules! made {
    ($buffer:ty) => {
        Ours<'_, $buffer, impl Fn(usize) -> Result<$buffer>, impl Fn(&[f32]) -> Result<$buffer>>
    };
}

/// `UnifiedBuffer`, from its plain constructors.
#[allow(clippy::type_complexity, reason = "closures have no name")]
pub(super) fn unified(bench: &Bench) -> Result<made!(UnifiedBuffer<f32>)> {
    let device = &bench.device;
    let new = |len| {
        let made = UnifiedBuffer::uninit(device, len)?;
        // SAFETY: memory of CUDA holds some `f32`, and the step uses no number that was not written.
        Ok(unsafe { made.assume_init() })
    };
    Ours::open(bench, new, |source| {
        Ok(UnifiedBuffer::from_slice(device, source)?)
    })
}

/// `DeviceBuffer`, from its plain constructors.
#[allow(clippy::type_complexity, reason = "closures have no name")]
pub(super) fn device(bench: &Bench) -> Result<made!(DeviceBuffer<f32>)> {
    let device = &bench.device;
    let new = |len| {
        let made = DeviceBuffer::uninit(device, len)?;
        // SAFETY: as for unified buffers.
        Ok(unsafe { made.assume_init() })
    };
    Ours::open(bench, new, |source| {
        Ok(DeviceBuffer::from_slice(device, source)?)
    })
}

/// `dyn Buffer`, from the constructors of the backend.
pub(super) fn boxed(bench: &Bench, kind: BufferKind) -> Result<impl Operations> {
    let config = CudaBackendConfig::default().runtime(RuntimeChoice::Given(bench.runtime.clone()));
    let backend = CudaBackend::initialize_blocking(config)?;
    let same = backend.clone();
    let new = move |len| {
        // SAFETY: as for unified buffers.
        let erased = unsafe { backend.create_erased_uninit(kind, DType::F32, len) }?;
        Ok(erased.into_typed::<f32>()?)
    };
    Ours::open(
        bench,
        new,
        move |source| Ok(same.create_from(kind, source)?),
    )
}

impl<B, N, F> Operations for Ours<'_, B, N, F>
where
    B: Temporary,
    N: Fn(usize) -> Result<B>,
    F: Fn(&[f32]) -> Result<B>,
{
    fn allocate(&mut self, slot: usize, len: usize) -> Result<()> {
        self.slots[slot] = Some((self.new)(len)?);
        Ok(())
    }

    fn fill(&mut self, slot: usize, source: &[f32]) -> Result<()> {
        self.slots[slot] = Some((self.filled)(source)?);
        Ok(())
    }

    fn scale(&mut self, slot: usize) -> Result<()> {
        let temporary = self.slots[slot].as_mut().context("live")?;
        temporary.scale(&self.kernel, &self.streams[slot % STREAMS])
    }

    fn read(&mut self, slot: usize, target: &mut [f32]) -> Result<()> {
        self.slots[slot].as_ref().context("live")?.read(target)
    }

    fn free(&mut self, slot: usize) -> Result<()> {
        self.slots[slot] = None;
        Ok(())
    }

    /// Also waits until the memory of dropped buffers is freed.
    fn finish(&mut self) -> Result<()> {
        self.bench.device.synchronize()?;
        Ok(self.bench.runtime.reclaim()?)
    }
}
