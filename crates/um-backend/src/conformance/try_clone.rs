//! Clones with their elements.

use super::failure::{Rule, Verdict};
use super::sample::{made_with, samples};
use super::{LENGTHS, Make};
use crate::dtype::Element;

/// [`Rule::TryClone`].
pub fn try_clone<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::TryClone;
    for len in LENGTHS {
        let (original, elements) = made_with(rule, make, 1, len)?;
        let mut clone = rule.works("try_clone", original.try_clone())?;
        rule.has(&*clone, &elements, "in the clone")?;
        let types = (clone.as_any().type_id(), original.as_any().type_id());
        rule.same("type of the clone", types.0, types.1)?;
        let others = samples(70, len);
        rule.works("copy_from_host", clone.copy_from_host(&others))?;
        rule.has(
            &*original,
            &elements,
            "in the original, after the clone was written",
        )?;
        drop(original);
        rule.has(
            &*clone,
            &others,
            "in the clone, after the original was dropped",
        )?;
    }
    Ok(())
}
