//! The operations: on the GPU, or on the CPU for memory of the host.

use super::layout::refused;
use super::scalar::{Op, Scalar, each, matmul};
use super::tensor::Tensor;
use rayon::prelude::*;
use um_backend::kernels::reduce_sum_cpu;
use um_backend::{DType, Result, SharedBuffer};

impl Tensor {
    /// `self + other`, element by element.
    ///
    /// # Errors
    /// The shapes or dtypes differ, there is no memory, or the launch failed.
    pub fn add(&self, other: &Self) -> Result<Self> {
        self.binary(Op::Add, other)
    }

    /// `self * other`, element by element.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn mul(&self, other: &Self) -> Result<Self> {
        self.binary(Op::Mul, other)
    }

    fn binary(&self, op: Op, other: &Self) -> Result<Self> {
        self.check(other)?;
        let (a, b) = (self.contiguous()?.storage, other.contiguous()?.storage);
        let out = Self::for_output(&self.place, self.dtype(), &self.shape)?;
        let ([a, b], [mut written]) = SharedBuffer::lock([&a, &b], [&out.storage])?;
        let Some(kernels) = &self.place.kernels else {
            each!(self.dtype(), T => {
                let (a, b) = (a.typed::<T>()?.host()?, b.typed::<T>()?.host()?);
                let mut out = written.typed_mut::<T>()?.host_mut()?;
                let both = a.par_iter().zip(&b[..]).zip(&mut out[..]);
                both.for_each(|((a, b), out)| *out = op.of()(*a, *b));
                Ok(out.close()?)
            })?;
            return Ok(out);
        };
        kernels.binary(&self.place.stream, op, &a, &b, &mut written)?;
        drop(written); // the launch is enqueued: later work on the storage is ordered after it
        Ok(out)
    }

    /// `self = self + other`, in place; storage that another tensor has is copied first.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_assign(&mut self, other: &Self) -> Result<()> {
        self.check(other)?;
        let other = other.contiguous()?;
        self.make_own()?;
        let ([other], [mut out]) = SharedBuffer::lock([&other.storage], [&self.storage])?;
        if let Some(kernels) = &self.place.kernels {
            return kernels.in_place(&self.place.stream, Op::Add, &mut out, &other);
        }
        each!(self.dtype(), T => {
            let (mut out, other) = (out.typed_mut::<T>()?.host_mut()?, other.typed::<T>()?.host()?);
            out.iter_mut().zip(&other[..]).for_each(|(out, other)| *out = out.plus(*other));
            Ok(out.close()?)
        })
    }

    /// `self = self * factor`, in place; storage that another tensor has is copied first. In a captured step the factor is a constant.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn scale(&mut self, factor: f64) -> Result<()> {
        self.make_own()?;
        each!(self.dtype(), T => match &self.place.kernels {
            Some(kernels) => kernels.scale::<T>(&self.place.stream, &mut self.storage.write()?, factor),
            None => {
                let mut out = self.storage.host_mut::<T>()?;
                out.iter_mut().for_each(|out| *out = out.times(T::of(factor)));
                Ok(out.close()?)
            }
        })
    }

    /// The matrix product of f32.
    ///
    /// # Errors
    /// The inner lengths differ, these are no matrices of f32, there is no memory, or the launch failed.
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        let (&[m, k], &[inner, n]) = (&self.shape[..], &other.shape[..]) else {
            return Err(refused(
                "a matrix product",
                format!("{:?} · {:?}", self.shape, other.shape),
                "it needs two matrices",
            ));
        };
        if k != inner {
            return Err(refused(
                "a matrix product",
                format!("{:?} · {:?}", self.shape, other.shape),
                "the inner lengths differ",
            ));
        }
        let (a, b) = (self.contiguous()?.storage, other.contiguous()?.storage);
        let out = Self::for_output(&self.place, DType::F32, &[m, n])?;
        let ([a, b], [mut written]) = SharedBuffer::lock([&a, &b], [&out.storage])?;
        if let Some(kernels) = &self.place.kernels {
            kernels.matmul(&self.place.stream, &a, &b, &mut written, [m, k, n])?;
        } else {
            let (a, b) = (a.typed::<f32>()?.host()?, b.typed::<f32>()?.host()?);
            let mut product = written.typed_mut::<f32>()?.host_mut()?;
            matmul(&a, &b, &mut product, k, n);
            product.close()?;
        }
        Ok(out)
    }

    /// The sum of all elements of f32, as a tensor with one element: the same bits on the CPU and the GPU.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn sum(&self) -> Result<Self> {
        let (input, out) = (
            self.contiguous()?.storage,
            Self::for_output(&self.place, DType::F32, &[1])?,
        );
        if let Some(kernels) = &self.place.kernels {
            let (input, mut sum) = (input.read()?, out.storage.write()?);
            kernels.reduce.sum(&self.place.stream, &input, &mut sum)?;
        } else {
            let mut sum = out.storage.host_mut::<f32>()?;
            sum[0] = reduce_sum_cpu(&input.host::<f32>()?);
            sum.close()?;
        }
        Ok(out)
    }

    /// Makes the storage the tensor's own: a copy if the elements are not row by row, or if another tensor has the storage.
    fn make_own(&mut self) -> Result<()> {
        *self = self.contiguous()?;
        self.storage.make_unique()
    }

    fn check(&self, other: &Self) -> Result<()> {
        if (self.dtype(), &self.shape) == (other.dtype(), &other.shape) {
            return Ok(());
        }
        let have = format!("the other tensor has {} {:?}", self.dtype(), self.shape);
        Err(refused(
            "an operand",
            format!("{} {:?}", other.dtype(), other.shape),
            have,
        ))
    }
}
