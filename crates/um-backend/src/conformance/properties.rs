//! The properties of a buffer.

use super::failure::{Rule, Verdict};
use super::sample::{samples, zeros};
use super::{LENGTHS, Make};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::memory::BufferMemory;

/// [`Rule::NewHoldsZeros`].
pub fn new_holds_zeros<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::NewHoldsZeros;
    for len in LENGTHS {
        // Twice, with samples in between: memory from a free list is not zero.
        for _ in 0..2 {
            let mut buffer = rule.works("making a buffer", make(len))?;
            rule.has(&*buffer, &zeros(len), "in a new buffer")?;
            rule.works("copy_from_host", buffer.copy_from_host(&samples(1, len)))?;
        }
    }
    Ok(())
}

/// [`Rule::Properties`].
pub fn properties<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Properties;
    for len in LENGTHS {
        let mut buffer = rule.works("making a buffer", make(len))?;
        let device = ordinal(&*buffer);
        unchanged(rule, &mut *buffer, len, device, "in a new buffer")?;
        rule.works("copy_from_host", buffer.copy_from_host(&samples(1, len)))?;
        unchanged(rule, &mut *buffer, len, device, "after copy_from_host")?;
        rule.works("set_zero", buffer.set_zero())?;
        unchanged(rule, &mut *buffer, len, device, "after set_zero")?;
    }
    Ok(())
}

/// The ordinal of the buffer's device.
pub(super) fn ordinal<T: Element>(buffer: &dyn Buffer<T>) -> Option<u32> {
    buffer.device().map(cuda_um::Device::ordinal)
}

fn unchanged<T: Element>(
    rule: Rule,
    buffer: &mut dyn Buffer<T>,
    len: usize,
    device: Option<u32>,
    when: &str,
) -> Verdict {
    rule.same(&format!("len() {when}"), buffer.len(), len)?;
    rule.same(&format!("is_empty() {when}"), buffer.is_empty(), len == 0)?;
    rule.same(&format!("dtype() {when}"), buffer.dtype(), T::DTYPE)?;
    let capacity = buffer.capacity();
    rule.holds(capacity >= len, || {
        format!("capacity() {when}: {capacity} for {len} elements")
    })?;
    rule.same(&format!("device() {when}"), ordinal(buffer), device)?;
    let (kind, found) = of_memory(buffer.memory());
    let exclusive = of_memory(buffer.memory_mut().as_shared());
    rule.same(
        &format!("memory() beside memory_mut() {when}"),
        (kind, found),
        exclusive,
    )?;
    match found {
        Some(found) => rule.same(&format!("elements in memory() {when}"), found, len),
        None => Ok(()),
    }
}

/// The kind of memory in words, and the number of its elements.
fn of_memory<T: Element>(memory: BufferMemory<'_, T>) -> (String, Option<usize>) {
    (memory.in_words(), memory.len())
}
