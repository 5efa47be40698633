//! Setting every element.

use super::failure::{Rule, Verdict};
use super::sample::{made_with, sample, zeros};
use super::{LENGTHS, Make};
use crate::dtype::Element;

/// [`Rule::Fill`].
pub fn fill<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Fill;
    for len in LENGTHS {
        let (mut buffer, _) = made_with(rule, make, 1, len)?;
        for value in [sample(200), sample(301), T::zeroed()] {
            rule.works("fill", buffer.fill(value))?;
            let when = format!("after fill({value:?})");
            rule.has(&*buffer, &vec![value; len], &when)?;
        }
    }
    Ok(())
}

/// [`Rule::SetZero`].
pub fn set_zero<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::SetZero;
    for len in LENGTHS {
        let (mut buffer, _) = made_with(rule, make, 1, len)?;
        rule.works("set_zero", buffer.set_zero())?;
        rule.has(&*buffer, &zeros(len), "after set_zero")?;
    }
    Ok(())
}
