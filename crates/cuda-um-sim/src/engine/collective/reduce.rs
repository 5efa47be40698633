//! Reductions of the elements of several ranks, in the order of the ranks.

use half::{bf16, f16};

/// An element of a reduction.
trait Number: bytemuck::Pod + PartialOrd {
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// An element of an average before the sum: floating-point numbers are divided there.
    fn share(self, ranks: usize) -> Self;
    /// The average of this sum of shares.
    fn average(self, ranks: usize) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            fn multiply(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn share(self, _: usize) -> Self { self }
            // More ranks than the type can count are no simulated machine.
            fn average(self, ranks: usize) -> Self { self / ranks as Self }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty: $of:expr;)*) => {$(
        impl Number for $type {
            fn add(self, other: Self) -> Self { self + other }
            fn multiply(self, other: Self) -> Self { self * other }
            fn share(self, ranks: usize) -> Self { self * $of(1.0 / ranks as f64) }
            fn average(self, _: usize) -> Self { self }
        }
    )*};
}

integers!(i8 u8 i32 u32 i64 u64);
floats! { f32: |x: f64| x as f32; f64: |x: f64| x; f16: f16::from_f64; bf16: bf16::from_f64; }

/// Reduces the elements of all inputs, which have the same size, by an operation with this number.
pub(super) type Reduction = fn(u32, &[Vec<u8>]) -> Vec<u8>;

/// Bytes of an element, and its reduction; `None` for a number that is no type.
pub(super) fn datatype(number: u32) -> Option<(usize, Reduction)> {
    fn of<T: Number>() -> Option<(usize, Reduction)> {
        Some((size_of::<T>(), reduce::<T>))
    }
    match number {
        0 => of::<i8>(),
        1 => of::<u8>(),
        2 => of::<i32>(),
        3 => of::<u32>(),
        4 => of::<i64>(),
        5 => of::<u64>(),
        6 => of::<f16>(),
        7 => of::<f32>(),
        8 => of::<f64>(),
        9 => of::<bf16>(),
        _ => None,
    }
}

fn reduce<T: Number>(operation: u32, inputs: &[Vec<u8>]) -> Vec<u8> {
    let ranks = inputs.len();
    let average = |value: T, of: fn(T, usize) -> T| match operation {
        4 => of(value, ranks),
        _ => value,
    };
    let combine = |a: T, b: T| match operation {
        1 => a.multiply(b),
        2 if b > a => b,
        3 if b < a => b,
        2 | 3 => a,
        _ => a.add(b),
    };
    let element = |input: &Vec<u8>, at: usize| {
        let value = bytemuck::pod_read_unaligned(&input[at..at + size_of::<T>()]);
        average(value, T::share)
    };
    let mut result = Vec::with_capacity(inputs[0].len());
    for at in (0..inputs[0].len()).step_by(size_of::<T>()) {
        let all = inputs.iter().map(|input| element(input, at));
        if let Some(sum) = all.reduce(combine) {
            result.extend_from_slice(bytemuck::bytes_of(&average(sum, T::average)));
        }
    }
    result
}
