//! Reductions of the elements of several ranks, in the order of the ranks.

use half::{bf16, f16};

/// An element of a reduction.
trait Number: bytemuck::Pod + PartialOrd {
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// The average is the sum of what this returns, or of the elements and then this.
    fn share(self, ranks: usize) -> Self;
    const SHARED_BEFORE: bool;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            fn multiply(self, other: Self) -> Self { self.wrapping_mul(other) }
            // More ranks than the type can count are no simulated machine.
            fn share(self, ranks: usize) -> Self { self / ranks as Self }
            const SHARED_BEFORE: bool = false;
        }
    )*};
}

macro_rules! floats {
    ($($type:ty: $of:expr;)*) => {$(
        impl Number for $type {
            fn add(self, other: Self) -> Self { self + other }
            fn multiply(self, other: Self) -> Self { self * other }
            fn share(self, ranks: usize) -> Self { self * $of(1.0 / ranks as f64) }
            const SHARED_BEFORE: bool = true;
        }
    )*};
}

integers!(i8 u8 i32 u32 i64 u64);
floats! { f32: |x: f64| x as f32; f64: |x: f64| x; f16: f16::from_f64; bf16: bf16::from_f64; }

/// Bytes of an element; `None` for a number that is no type.
pub(super) fn width(datatype: u32) -> Option<usize> {
    Some(match datatype {
        0 | 1 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        _ => return None,
    })
}

/// Reduces the elements of all inputs, which have the same size.
pub(super) fn reduce(operation: u32, datatype: u32, inputs: &[Vec<u8>]) -> Vec<u8> {
    let of = match datatype {
        0 => of::<i8>,
        1 => of::<u8>,
        2 => of::<i32>,
        3 => of::<u32>,
        4 => of::<i64>,
        5 => of::<u64>,
        6 => of::<f16>,
        7 => of::<f32>,
        8 => of::<f64>,
        _ => of::<bf16>,
    };
    of(operation, inputs)
}

fn of<T: Number>(operation: u32, inputs: &[Vec<u8>]) -> Vec<u8> {
    let (ranks, is_average) = (inputs.len(), operation == 4);
    let combine = |a: T, b: T| match operation {
        1 => a.multiply(b),
        2 => {
            if b > a {
                b
            } else {
                a
            }
        }
        3 => {
            if b < a {
                b
            } else {
                a
            }
        }
        _ => a.add(b),
    };
    let element = |input: &Vec<u8>, at: usize| {
        let value: T = bytemuck::pod_read_unaligned(&input[at..at + size_of::<T>()]);
        match is_average && T::SHARED_BEFORE {
            true => value.share(ranks),
            false => value,
        }
    };
    let mut result = Vec::with_capacity(inputs[0].len());
    for at in (0..inputs[0].len()).step_by(size_of::<T>()) {
        let all = inputs.iter().map(|input| element(input, at));
        let Some(sum) = all.reduce(combine) else {
            continue;
        };
        let value = match is_average && !T::SHARED_BEFORE {
            true => sum.share(ranks),
            false => sum,
        };
        result.extend_from_slice(bytemuck::bytes_of(&value));
    }
    result
}
