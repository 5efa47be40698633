//! Clones without elements.

use super::failure::{Rule, Verdict};
use super::properties::ordinal;
use super::sample::{made_with, samples, zeros};
use super::{LENGTHS, Make};
use crate::dtype::Element;
use crate::error::CudaError;

/// [`Rule::CloneEmpty`].
pub fn clone_empty<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::CloneEmpty;
    for original_len in [0, 3, 1000] {
        let (original, elements) = made_with(rule, make, 1, original_len)?;
        for len in LENGTHS {
            let mut clone = rule.works("clone_empty", original.clone_empty(len))?;
            rule.same("len() of the clone", clone.len(), len)?;
            rule.has(&*clone, &zeros(len), "in the clone")?;
            rule.same(
                "type of the clone",
                clone.as_any().type_id(),
                original.as_any().type_id(),
            )?;
            let (found, expected) = (ordinal(&*clone), ordinal(&*original));
            rule.same("device() of the clone", found, expected)?;

            let others = samples(70, len);
            rule.works("copy_from_host", clone.copy_from_host(&others))?;
            rule.has(&*clone, &others, "in the clone, after it was written")?;
            rule.has(
                &*original,
                &elements,
                "in the original, after the clone was written",
            )?;
        }
        let refused = original.clone_empty(usize::MAX).map(drop);
        rule.refused("clone_empty(usize::MAX)", refused, |error| {
            matches!(
                error,
                CudaError::TooLarge { .. } | CudaError::OutOfMemory { .. }
            )
        })?;
        rule.has(
            &*original,
            &elements,
            "after clone_empty(usize::MAX) was refused",
        )?;
    }
    Ok(())
}
