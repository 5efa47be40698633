//! The model: vectors, on which every operation happens at once and in the order of the calls.

use std::ops::Range;

/// The expected contents of one buffer.
pub struct Contents {
    pub elements: Vec<u32>,
    /// True if work on the buffer was enqueued while all streams are held. The work cannot be done, so the host must not get
    /// access to the buffer.
    pub held_write: bool,
    pub held_read: bool,
}

/// Element number `index` of the numbers of a seed.
pub fn number(seed: u32, index: usize) -> u32 {
    (index as u32).wrapping_mul(2_654_435_761) ^ seed
}

/// The elements of a range of a buffer.
pub fn numbers(seed: u32, range: Range<usize>) -> Vec<u32> {
    range.map(|index| number(seed, index)).collect()
}

/// The effect of the kernel `model_step`.
pub fn step(elements: &mut [u32], number: u32) {
    for element in elements {
        *element = element.wrapping_mul(3).wrapping_add(number);
    }
}

/// The effect of the kernel `model_mix`, for slices as long as `x`.
pub fn mix(x: &mut [u32], y: &mut [u32], from: &[u32], number: u32) {
    for ((x, y), from) in x.iter_mut().zip(y).zip(from) {
        *y = y.wrapping_mul(5).wrapping_add(*x);
        *x = x.wrapping_mul(3).wrapping_add(*from).wrapping_add(number);
    }
}

impl Contents {
    pub fn new(len: usize, seed: Option<u32>) -> Self {
        let elements = seed.map_or_else(|| vec![0; len], |seed| numbers(seed, 0..len));
        Self {
            elements,
            held_write: false,
            held_read: false,
        }
    }

    pub fn write(&mut self, range: Range<usize>, seed: u32) {
        for index in range {
            self.elements[index] = number(seed, index);
        }
    }

    /// Compares with the elements of the range; an error names the first difference.
    pub fn compare(&self, range: Range<usize>, found: &[u32]) -> Result<(), String> {
        let expected = &self.elements[range.clone()];
        if expected == found {
            return Ok(());
        }
        let differs = |(expected, found): (&u32, &u32)| expected != found;
        let Some(at) = expected.iter().zip(found).position(differs) else {
            return Err(format!(
                "{} elements instead of {}",
                found.len(),
                expected.len()
            ));
        };
        let wrong = expected.iter().zip(found).filter(|pair| differs(*pair));
        Err(format!(
            "element {} of {} is {}, not {} ({} of {} read are wrong)",
            range.start + at,
            self.elements.len(),
            found[at],
            expected[at],
            wrong.count(),
            found.len(),
        ))
    }
}
