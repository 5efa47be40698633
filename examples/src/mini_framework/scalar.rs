//! The element types, and the arithmetic of the CPU.

use rayon::prelude::*;
use um_backend::half::{bf16, f16};
use um_backend::{Element, dtype::Bool};

/// An element type of the library.
pub trait Scalar: Element {
    /// Converts a number, rounding it.
    fn of(value: f64) -> Self;
    /// The sum, rounded; the logical "or" of booleans.
    fn plus(self, other: Self) -> Self;
    /// The product, rounded; the logical "and" of booleans.
    fn times(self, other: Self) -> Self;
}

macro_rules! scalars {
    ($($type:ty, $of:expr, $plus:expr, $times:expr;)*) => {$(
        impl Scalar for $type {
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
            fn times(self, other: Self) -> Self {
                $times(self, other)
            }
        }
    )*};
}
scalars! {
    f32, |x| x as f32, |x, y| x + y, |x, y| x * y;
    f16, f16::from_f64, |x: f16, y: f16| f16::from_f32(x.to_f32() + y.to_f32()), |x: f16, y: f16| f16::from_f32(x.to_f32() * y.to_f32());
    bf16, bf16::from_f64, |x: bf16, y: bf16| bf16::from_f32(x.to_f32() + y.to_f32()), |x: bf16, y: bf16| bf16::from_f32(x.to_f32() * y.to_f32());
    i64, |x| x as i64, i64::wrapping_add, i64::wrapping_mul;
    u8, |x| x as u8, u8::wrapping_add, u8::wrapping_mul;
    Bool, |x| Bool::from(x != 0.0), |x: Bool, y: Bool| Bool::from(x.0 | y.0 != 0), |x: Bool, y: Bool| Bool::from(x.0 != 0 && y.0 != 0);
}

/// Runs code with `$T` as the element type of a dtype. Another dtype is an error.
macro_rules! each {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            um_backend::DType::F32 => {
                type $T = f32;
                $body
            }
            um_backend::DType::F16 => {
                type $T = um_backend::half::f16;
                $body
            }
            um_backend::DType::BF16 => {
                type $T = um_backend::half::bf16;
                $body
            }
            um_backend::DType::I64 => {
                type $T = i64;
                $body
            }
            um_backend::DType::U8 => {
                type $T = u8;
                $body
            }
            um_backend::DType::Bool => {
                type $T = um_backend::dtype::Bool;
                $body
            }
            other => Err($crate::mini_framework::layout::refused(
                "a dtype",
                other,
                "f32, f16, bf16, i64, u8 and bool are supported",
            )),
        }
    };
}
pub(super) use each;

/// An operation on two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// [`Scalar::plus`].
    Add,
    /// [`Scalar::times`].
    Mul,
}

impl Op {
    /// The name, as in the names of the kernels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Mul => "mul",
        }
    }

    /// The operation.
    pub fn of<T: Scalar>(self) -> fn(T, T) -> T {
        match self {
            Self::Add => T::plus,
            Self::Mul => T::times,
        }
    }
}

/// `output [m, n]` = `a [m, k]` · `b [k, n]`, one task for each row.
pub(super) fn matmul(a: &[f32], b: &[f32], output: &mut [f32], k: usize, n: usize) {
    let rows = output.par_chunks_exact_mut(n.max(1)).enumerate();
    rows.for_each(|(row, output)| {
        for (column, output) in output.iter_mut().enumerate() {
            let products = (0..k).map(|j| (a[row * k + j], b[j * n + column]));
            *output = products.fold(0.0, |sum, (x, y)| x.mul_add(y, sum));
        }
    });
}
