//! Operations on a stream of the caller's choice, and hints.

use cuda_um::{Advice, Location, Stream};

use super::bounds::names_range;
use super::failure::{Failure, Rule, Verdict};
use super::sample::{made_with, sample, samples};
use super::{LENGTHS, Make};
use crate::buffer::Buffer;
use crate::dtype::Element;

/// A new stream of the buffer's device; `None` for memory of the CPU, which has no stream.
fn stream_of<T: Element>(rule: Rule, buffer: &dyn Buffer<T>) -> Verdict<Option<Stream>> {
    let device = buffer.device().map(cuda_um::Device::create_stream);
    device.transpose().map_err(|error| Failure {
        rule,
        what: "no stream".to_owned(),
        cause: Some(Box::new(error)),
    })
}

/// [`Rule::OnStream`]. A buffer of the CPU, which has no stream, keeps it.
pub fn on_stream<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::OnStream;
    for len in LENGTHS {
        let (mut buffer, elements) = made_with(rule, make, 1, len)?;
        let (mut other, _) = made_with(rule, make, 2, len)?;
        let (Some(one), Some(two)) = (stream_of(rule, &*buffer)?, stream_of(rule, &*buffer)?)
        else {
            return Ok(());
        };
        rule.works(
            "copy_from_buffer_on",
            other.copy_from_buffer_on(&*buffer, &one),
        )?;
        rule.works("fill_on", buffer.fill_on(sample(9), &two))?;
        rule.has(&*other, &elements, "in a copy on a stream")?;
        rule.has(&*buffer, &vec![sample(9); len], "after fill_on")?;
        let mut new = samples(90, len);
        rule.works("copy_from_host_on", buffer.copy_from_host_on(&new, &one))?;
        let expected = new.clone();
        new.fill(sample(1));
        let mut found = vec![sample(3); len];
        rule.works("copy_to_host_on", buffer.copy_to_host_on(&mut found, &two))?;
        rule.equal(&found, &expected, "read back on another stream")?;
    }
    Ok(())
}

/// [`Rule::Hints`].
pub fn hints<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Hints;
    for len in LENGTHS {
        let (buffer, elements) = made_with(rule, make, 1, len)?;
        let outcome = buffer.advise_range(0..len / 2, Advice::SetReadMostly);
        rule.works("advise_range", outcome)?;
        let outcome = buffer.advise_range(0..len / 2, Advice::UnsetReadMostly);
        rule.works("advise_range", outcome)?;
        let outcome = buffer
            .advise_range(0..len + 1, Advice::SetReadMostly)
            .map(drop);
        rule.refused(
            "advice beyond the end",
            outcome,
            names_range(0, len + 1, len),
        )?;
        if let Some(stream) = stream_of(rule, &*buffer)? {
            let outcome = buffer.prefetch_range_on(len / 2..len, Location::Host, &stream);
            rule.works("prefetch_range", outcome)?;
            let outcome = buffer
                .prefetch_range_on(len..len + 1, Location::Host, &stream)
                .map(drop);
            rule.refused(
                "a prefetch beyond the end",
                outcome,
                names_range(len, 1, len),
            )?;
        }
        rule.has(&*buffer, &elements, "after hints")?;
    }
    Ok(())
}
