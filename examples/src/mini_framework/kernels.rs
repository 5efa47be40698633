//! The kernels of `kernels.cu`.
#![allow(unsafe_code, reason = "launches kernels")]

use super::layout::{Layout, refused};
use super::scalar::{Op, Scalar};
use std::collections::HashMap;
use std::fmt::Display;
use um_backend::kernels::Reduce;
use um_backend::{
    BufferKind, CudaDevice, Result, SharedRead, SharedWrite, Stream,
    cuda_um::{Kernel, LaunchConfig, Module, buffer::InPlace, constant, kernel::KernelArgs},
};

const PTX: &str = include_str!("kernels.ptx");

/// The kernels on one device.
#[derive(Debug)]
pub(super) struct Kernels {
    by_name: HashMap<String, Kernel>,
    pub(super) reduce: Reduce,
}

impl Kernels {
    /// `None` if the CPU computes: for memory that the device cannot access, and on devices for which there is no PTX.
    pub(super) fn load(device: &CudaDevice, kind: BufferKind) -> Result<Option<Self>> {
        let capabilities = device.capabilities();
        let can_access = kind != BufferKind::Host || capabilities.pageable_memory_access;
        if !can_access || capabilities.compute_capability < (6, 0) {
            return Ok(None);
        }
        let module = Module::load(device, PTX)?;
        let kernel = |name: &String| Ok((name.clone(), module.kernel(name)?));
        Ok(Some(Self {
            by_name: names().iter().map(kernel).collect::<Result<_>>()?,
            reduce: Reduce::load(device)?,
        }))
    }

    /// `out = op(a, b)`
    pub(super) fn binary(
        &self,
        stream: &Stream,
        op: Op,
        a: &SharedRead,
        b: &SharedRead,
        out: &mut SharedWrite,
    ) -> Result<()> {
        let (dtype, count) = (out.dtype(), out.len());
        fits(is_like(a, out) && is_like(b, out))?;
        // SAFETY: the kernel uses `count` elements of each buffer.
        unsafe {
            self.launch(
                op.name(),
                dtype,
                stream,
                count,
                (a, b, out, constant(count as u64)),
            )
        }
    }

    /// `out = op(out, b)`: one buffer as input and output.
    pub(super) fn in_place(
        &self,
        stream: &Stream,
        op: Op,
        out: &mut SharedWrite,
        b: &SharedRead,
    ) -> Result<()> {
        let (dtype, count) = (out.dtype(), out.len());
        fits(is_like(b, out))?;
        let both = both(out)?;
        // SAFETY: as above; a thread reads an element of `out` before it writes the same one.
        unsafe {
            self.launch(
                op.name(),
                dtype,
                stream,
                count,
                (both, b, both, constant(count as u64)),
            )
        }
    }

    /// `out = out * factor`
    pub(super) fn scale<T: Scalar>(
        &self,
        stream: &Stream,
        out: &mut SharedWrite,
        factor: f64,
    ) -> Result<()> {
        let count = out.typed::<T>()?.len();
        let (both, factor) = (both(out)?, constant(T::of(factor)));
        // SAFETY: as above.
        unsafe {
            self.launch(
                "scale",
                T::DTYPE,
                stream,
                count,
                (both, factor, both, constant(count as u64)),
            )
        }
    }

    /// Copies the elements of a layout row by row.
    pub(super) fn copy(
        &self,
        stream: &Stream,
        input: &SharedRead,
        layout: Layout,
        out: &mut SharedWrite,
    ) -> Result<()> {
        let (bits, count) = (out.dtype().size_bytes() * 8, out.len());
        fits(
            input.dtype() == out.dtype()
                && layout.count() == count as u64
                && layout.span() <= input.len() as u64,
        )?;
        // SAFETY: the layout stays within the input, and the output has `count` elements.
        unsafe {
            self.launch(
                "copy",
                bits,
                stream,
                count,
                (input, constant(layout), out, constant(count as u64)),
            )
        }
    }

    /// `out [m, n] = a [m, k] · b [k, n]`
    pub(super) fn matmul(
        &self,
        stream: &Stream,
        a: &SharedRead,
        b: &SharedRead,
        out: &mut SharedWrite,
        [m, k, n]: [usize; 3],
    ) -> Result<()> {
        let (dtype, count) = (out.dtype(), out.len());
        fits(
            a.dtype() == dtype
                && b.dtype() == dtype
                && [a.len(), b.len(), count] == [m * k, k * n, m * n],
        )?;
        let [len, k, n] = [count, k, n].map(|number| constant(number as u64));
        let arguments = (a, b, out, len, k, n);
        // SAFETY: the kernel uses all elements of the buffers, and no others.
        unsafe { self.launch("matmul", dtype, stream, count, arguments) }
    }

    /// # Safety
    /// The arguments are those of the kernel, which stays within their buffers.
    unsafe fn launch(
        &self,
        name: &str,
        suffix: impl Display,
        stream: &Stream,
        count: usize,
        arguments: impl KernelArgs,
    ) -> Result<()> {
        let name = format!("{name}_{suffix}");
        let shape = LaunchConfig::linear(count, 256);
        let Some(kernel) = self.by_name.get(&name) else {
            return Err(refused("a kernel", name, "there is none of this name"));
        };
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(stream, shape, arguments)? };
        Ok(())
    }
}

fn is_like(a: &SharedRead, out: &SharedWrite) -> bool {
    (a.dtype(), a.len()) == (out.dtype(), out.len())
}

fn fits(fits: bool) -> Result<()> {
    if fits {
        return Ok(());
    }
    Err(refused(
        "a launch",
        "tensors of these lengths and dtypes",
        "they do not fit each other",
    ))
}

/// The kernels' names.
fn names() -> Vec<String> {
    let mut names = ["copy_8", "copy_16", "copy_32", "copy_64", "matmul_f32"]
        .map(str::to_owned)
        .to_vec();
    for dtype in ["f32", "f16", "bf16", "i64", "u8", "bool"] {
        names.extend(["add", "mul", "scale"].map(|name| format!("{name}_{dtype}")));
    }
    names
}

/// A buffer as the input and the output of one launch.
fn both(out: &mut SharedWrite) -> Result<InPlace<'_, u8>> {
    Ok(out.bytes_mut().memory_mut().device_view_mut()?.in_place())
}
