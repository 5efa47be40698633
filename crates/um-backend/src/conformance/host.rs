//! Slices for the host.

use super::failure::{Rule, Verdict};
use super::sample::{made_with, sample};
use super::{LENGTHS, Make};
use crate::dtype::Element;

/// [`Rule::HostAccess`].
pub fn host_access<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::HostAccess;
    for len in LENGTHS {
        let (mut buffer, mut elements) = made_with(rule, make, 1, len)?;
        rule.equal(&rule.works("host", buffer.host())?, &elements, "in host()")?;

        let mut view = rule.works("host_mut", buffer.host_mut())?;
        rule.equal(&view, &elements, "in host_mut()")?;
        view.fill(sample(5));
        rule.works("close of host_mut()", view.close())?;
        elements.fill(sample(5));
        rule.has(&*buffer, &elements, "after host_mut() was closed")?;

        let mut view = rule.works("host_mut", buffer.host_mut())?;
        for (index, element) in view.iter_mut().enumerate() {
            *element = sample(40 + index);
            elements[index] = *element;
        }
        drop(view);
        rule.has(&*buffer, &elements, "after host_mut() was dropped")?;

        rule.works("fill", buffer.fill(sample(8)))?;
        elements.fill(sample(8));
        rule.equal(
            &rule.works("host", buffer.host())?,
            &elements,
            "in host() after fill",
        )?;
    }
    Ok(())
}
