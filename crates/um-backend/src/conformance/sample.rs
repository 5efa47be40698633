//! Distinct elements.

use super::Make;
use super::failure::{Rule, Verdict};
use crate::buffer::Buffer;
use crate::dtype::Element;

/// The largest byte of a sample. Small enough that no sample is a NaN, which is not equal to itself.
const LARGEST_BYTE: usize = 100;

/// An element that is not zero. Ten thousand consecutive samples differ if the type has several bytes, otherwise a hundred.
pub(super) fn sample<T: Element>(index: usize) -> T {
    let mut element = T::zeroed();
    let bytes = bytemuck::bytes_of_mut(&mut element);
    let mut rest = index;
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = 1 + ((rest % LARGEST_BYTE * 7 + place) % LARGEST_BYTE) as u8;
        rest /= LARGEST_BYTE;
    }
    element
}

pub(super) fn samples<T: Element>(seed: usize, len: usize) -> Vec<T> {
    (seed..seed + len).map(sample).collect()
}

pub(super) fn zeros<T: Element>(len: usize) -> Vec<T> {
    vec![T::zeroed(); len]
}

pub(super) fn made<T: Element>(
    rule: Rule,
    make: Make<'_, T>,
    len: usize,
) -> Verdict<Box<dyn Buffer<T>>> {
    rule.works("making a buffer", make(len))
}

pub(super) fn made_with<T: Element>(
    rule: Rule,
    make: Make<'_, T>,
    seed: usize,
    len: usize,
) -> Verdict<(Box<dyn Buffer<T>>, Vec<T>)> {
    let mut buffer = made(rule, make, len)?;
    let elements = samples(seed, len);
    rule.works("copy_from_host", buffer.copy_from_host(&elements))?;
    Ok((buffer, elements))
}
