//! Readers and writers.

use super::bounds::names_range;
use super::failure::{Rule, Verdict};
use super::sample::{made_with, samples};
use super::{LENGTHS, Make};
use crate::dtype::Element;
use crate::error::CudaError;

/// [`Rule::Files`].
pub fn files<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Files;
    let width = size_of::<T>();
    for len in LENGTHS {
        let (mut buffer, mut elements) = made_with(rule, make, 1, len)?;
        for part in [0..len, len / 3..len - len / 3, len..len] {
            let mut file = Vec::new();
            rule.works("write_to", buffer.write_to(&mut file, part.clone()))?;
            let expected: &[u8] = bytemuck::cast_slice(&elements[part.clone()]);
            rule.holds(file == expected, || {
                format!("write_to of {part:?} wrote other bytes")
            })?;

            let new = samples::<T>(300, part.len());
            let mut source = bytemuck::cast_slice(&new);
            rule.works("read_from", buffer.read_from(&mut source, part.clone()))?;
            rule.same("bytes left by read_from", source.len(), 0)?;
            elements[part.clone()].copy_from_slice(&new);
            rule.has(&*buffer, &elements, &format!("after {part:?} was read"))?;
        }
        let outcome = buffer.read_from(&mut &[][..], 0..len + 1);
        rule.refused(
            "reading beyond the end",
            outcome,
            names_range(0, len + 1, len),
        )?;
        let outcome = buffer.write_to(&mut Vec::new(), 0..len + 1);
        rule.refused(
            "writing beyond the end",
            outcome,
            names_range(0, len + 1, len),
        )?;
        if len > 0 {
            let short = vec![0; len * width - 1];
            let outcome = buffer.read_from(&mut &short[..], 0..len);
            rule.refused("reading a file that ends early", outcome, |error| {
                matches!(error, CudaError::Io { total_bytes, .. } if *total_bytes == len * width)
            })?;
        }
    }
    Ok(())
}
