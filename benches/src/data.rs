//! Fresh data: different in each round, never zero. Several threads make large amounts.

use std::thread;

/// Number of elements from which on threads share the work.
const MANY: usize = 1 << 20;

/// The bits of a number from 1 to below 2, a pseudo-random function of position and seed.
fn bits(place: u32, seed: u32) -> u32 {
    let mut mixed = place.wrapping_mul(0x9E37_79B1);
    mixed = ((mixed ^ (mixed >> 16)).wrapping_add(seed)).wrapping_mul(0x85EB_CA6B);
    mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xC2B2_AE35);
    ((mixed ^ (mixed >> 16)) >> 9) | 0x3F80_0000
}

fn seed(round: u64) -> u32 {
    (round as u32).wrapping_mul(0x85EB_CA6B) ^ 0x5bd1_e995
}

/// Fills with numbers from 1 to below 2, different in each round.
pub fn fill(elements: &mut [f32], round: u64) {
    let seed = seed(round);
    each(elements, &|first, part| {
        for (place, element) in part.iter_mut().enumerate() {
            *element = f32::from_bits(bits((first + place) as u32, seed));
        }
    });
}

/// The number of elements of `found` that are not `factor` times the same element of `source`.
pub fn differences(found: &[f32], source: &[f32], factor: f32) -> usize {
    let count = |found: &[f32], source: &[f32]| {
        let pairs = found.iter().zip(source);
        pairs.map(|(f, s)| usize::from(*f != s * factor)).sum()
    };
    if found.len() < MANY {
        return count(found, source);
    }
    let size = found.len().div_ceil(threads());
    thread::scope(|scope| {
        let parts: Vec<_> = found
            .chunks(size)
            .zip(source.chunks(size))
            .map(|(found, source)| scope.spawn(move || count(found, source)))
            .collect();
        parts
            .into_iter()
            .map(|part| part.join().unwrap_or(usize::MAX / 64))
            .sum()
    })
}

/// Calls `work` for every part of the elements, with the position of its first element.
fn each(elements: &mut [f32], work: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    if elements.len() < MANY {
        return work(0, elements);
    }
    let size = elements.len().div_ceil(threads());
    thread::scope(|scope| {
        for (number, part) in elements.chunks_mut(size).enumerate() {
            scope.spawn(move || work(number * size, part));
        }
    });
}

fn threads() -> usize {
    thread::available_parallelism()
        .map_or(1, usize::from)
        .min(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_and_never_zero() {
        let (mut first, mut second) = (vec![0.0; 1 << 20], vec![0.0; 1 << 20]);
        fill(&mut first, 1);
        fill(&mut second, 2);
        assert!(first.iter().chain(&second).all(|x| (1.0..2.0).contains(x)));
        assert!(differences(&first, &second, 1.0) > first.len() / 2);
        assert_eq!(differences(&first, &first, 1.0), 0);
    }

    #[test]
    fn one_wrong_element_is_seen() {
        let mut source = vec![0.0; 3 << 20];
        fill(&mut source, 7);
        let mut found: Vec<f32> = source.iter().map(|x| x * 2.5).collect();
        assert_eq!(differences(&found, &source, 2.5), 0);
        found[2 << 20] = f32::NAN;
        assert_eq!(differences(&found, &source, 2.5), 1);
    }
}
