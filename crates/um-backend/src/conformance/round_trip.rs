//! Copies from the host and back.

use super::failure::{Rule, Verdict};
use super::sample::{made_with, sample, samples};
use super::{LENGTHS, Make};
use crate::dtype::Element;

/// [`Rule::RoundTrip`].
pub fn round_trip<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::RoundTrip;
    for len in LENGTHS {
        let (mut buffer, elements) = made_with(rule, make, 1, len)?;
        rule.has(&*buffer, &elements, "after copy_from_host")?;
        rule.has(&*buffer, &elements, "when read again")?;
        let to_vec = rule.works("to_vec", buffer.to_vec())?;
        rule.equal(&to_vec, &elements, "in the result of to_vec")?;
        let others = samples(500, len);
        rule.works("copy_from_host", buffer.copy_from_host(&others))?;
        rule.has(&*buffer, &others, "after a second copy_from_host")?;
    }
    Ok(())
}

/// [`Rule::RoundTripAt`].
pub fn round_trip_at<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::RoundTripAt;
    for len in LENGTHS {
        let (mut buffer, mut elements) = made_with(rule, make, 1, len)?;
        // The start, the middle, the end, all elements, none.
        let parts = [
            0..len / 2,
            len / 3..len - len / 3,
            len - len / 4..len,
            0..len,
            0..0,
            len..len,
        ];
        for (number, part) in parts.into_iter().enumerate() {
            let when = format!("after {part:?} of {len} elements was written");
            let new = samples::<T>(100 * (number + 1), part.len());
            elements[part.clone()].copy_from_slice(&new);
            let written = buffer.copy_from_host_at(part.start, &new);
            rule.works("copy_from_host_at", written)?;
            rule.has(&*buffer, &elements, &when)?;

            let mut found = vec![sample(3); part.len()];
            let read = buffer.copy_to_host_at(part.start, &mut found);
            rule.works("copy_to_host_at", read)?;
            rule.equal(&found, &new, &format!("read back {when}"))?;
        }
    }
    Ok(())
}
