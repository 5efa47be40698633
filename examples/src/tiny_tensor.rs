//! A tensor type in 150 lines. It uses only `dyn Buffer`, and works with every implementation.

use crate::Failure;
use std::fmt;
use um_backend::{Buffer, BufferMemory, BufferMemoryMut};
use um_kernels::{Saxpy, Scale, saxpy_cpu, scale_cpu};

/// The kernels that tensors use, loaded on a device.
#[derive(Debug)]
pub struct Kernels {
    stream: um_backend::Stream,
    scale: Scale,
    saxpy: Saxpy,
}

impl Kernels {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The device refuses a module.
    pub fn load(device: &um_backend::CudaDevice) -> Result<Self, Failure> {
        let (stream, device) = (device.stream().clone(), device.as_cuda_um());
        Ok(Self {
            stream,
            scale: Scale::load(device)?,
            saxpy: Saxpy::load(device)?,
        })
    }
}

/// A matrix of f32, row by row, in the memory of its buffer.
pub struct Tensor {
    buffer: Box<dyn Buffer<f32>>,
    rows: usize,
    columns: usize,
}

impl Tensor {
    /// Creates a matrix in a buffer, and fills it with `values`.
    ///
    /// # Errors
    /// `values` or the buffer do not have `rows` × `columns` elements, or a copy failed.
    pub fn new(
        mut buffer: Box<dyn Buffer<f32>>,
        (rows, columns): (usize, usize),
        values: &[f32],
    ) -> Result<Self, Failure> {
        if rows.checked_mul(columns) != Some(buffer.len()) {
            return Err(format!("{rows} × {columns} elements do not fill {}", buffer.len()).into());
        }
        buffer.copy_from_host(values)?;
        Ok(Self {
            buffer,
            rows,
            columns,
        })
    }

    /// A zero matrix of this shape, in memory of the same kind.
    fn zeros(&self, rows: usize, columns: usize) -> Result<Self, Failure> {
        let buffer = self.buffer.clone_empty(rows * columns)?;
        Ok(Self {
            buffer,
            rows,
            columns,
        })
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// The elements, row by row.
    ///
    /// # Errors
    /// A copy failed, or an earlier kernel failed.
    pub fn to_vec(&self) -> Result<Vec<f32>, Failure> {
        let mut values = vec![0.0; self.buffer.len()];
        self.buffer.copy_to_host(&mut values)?;
        Ok(values)
    }

    /// `self × factor`: with a kernel if the memory is on a device, otherwise on the CPU.
    ///
    /// # Errors
    /// There is no memory, or the launch failed.
    pub fn scaled(&self, factor: f32, kernels: &Kernels) -> Result<Self, Failure> {
        let mut result = self.zeros(self.rows, self.columns)?;
        match (self.buffer.memory(), result.buffer.memory_mut()) {
            (BufferMemory::Host(input), BufferMemoryMut::Host(output)) => {
                scale_cpu(input, output, factor)
            }
            (input, output) => kernels.scale.launch(
                &kernels.stream,
                input.device_view()?,
                output.device_view_mut()?,
                factor,
            )?,
        }
        Ok(result)
    }

    /// `self += factor × other`: with a kernel if the memory is on a device, otherwise on the CPU.
    ///
    /// # Errors
    /// The shapes differ, or the launch failed.
    pub fn add_scaled(
        &mut self,
        factor: f32,
        other: &Self,
        kernels: &Kernels,
    ) -> Result<(), Failure> {
        if self.shape() != other.shape() {
            return Err(format!("{other:?} cannot be added to {self:?}").into());
        }
        match (other.buffer.memory(), self.buffer.memory_mut()) {
            (BufferMemory::Host(x), BufferMemoryMut::Host(y)) => saxpy_cpu(factor, x, y),
            (x, y) => kernels.saxpy.launch(
                &kernels.stream,
                factor,
                x.device_view()?,
                y.device_view_mut()?,
            )?,
        }
        Ok(())
    }

    /// `self · other`, on the CPU.
    ///
    /// # Errors
    /// The inner lengths differ, there is no memory, or a copy failed.
    pub fn matmul(&self, other: &Self) -> Result<Self, Failure> {
        if self.columns != other.rows {
            return Err(format!("{self:?} and {other:?} have no product").into());
        }
        let (a, b) = (self.to_vec()?, other.to_vec()?);
        let mut product = self.zeros(self.rows, other.columns)?;
        let mut values = vec![0.0; product.buffer.len()];
        for (row, out) in a
            .chunks_exact(self.columns)
            .zip(values.chunks_exact_mut(other.columns))
        {
            for (x, line) in row.iter().zip(b.chunks_exact(other.columns)) {
                saxpy_cpu(*x, line, out);
            }
        }
        product.buffer.copy_from_host(&values)?;
        Ok(product)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, device) = (self.buffer.dtype(), self.buffer.device());
        write!(f, "{} × {} {dtype} on {device}", self.rows, self.columns)
    }
}
