//! Downcasts to the implementation.

use std::any::type_name;
use std::ptr;

use super::Make;
use super::failure::{Rule, Verdict};
use super::sample::made_with;
use crate::buffer::Buffer;
use crate::dtype::Element;

/// [`Rule::Downcasts`] for any implementation: `as_any` and `as_any_mut` return the buffer itself.
pub fn downcasts<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Downcasts;
    let mut buffer = rule.works("making a buffer", make(3))?;
    let itself = ptr::from_ref(&*buffer);
    rule.holds(ptr::addr_eq(buffer.as_any(), itself), || {
        "as_any() is not the buffer".to_owned()
    })?;
    rule.holds(ptr::addr_eq(buffer.as_any_mut(), itself), || {
        "as_any_mut() is not the buffer".to_owned()
    })?;
    let (shared, exclusive) = (buffer.as_any().type_id(), buffer.as_any_mut().type_id());
    rule.same("types of as_any() and as_any_mut()", shared, exclusive)?;
    rule.holds(!buffer.as_any().is::<Box<dyn Buffer<T>>>(), || {
        "as_any() is the box, not the implementation".to_owned()
    })
}

/// [`Rule::Downcasts`] for an implementation of a known type.
///
/// # Errors
/// The implementation does not keep the rule.
pub fn downcasts_to<B: Buffer<T> + 'static, T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Downcasts;
    let (mut buffer, elements) = made_with(rule, make, 1, 3)?;
    let no = |call: &str| rule.broken(format!("{call} is not a {}", type_name::<B>()));
    let shared = buffer.as_any().downcast_ref::<B>();
    rule.has(
        shared.ok_or_else(|| no("as_any()"))?,
        &elements,
        "seen through as_any()",
    )?;
    let exclusive = buffer.as_any_mut().downcast_mut::<B>();
    let exclusive = exclusive.ok_or_else(|| no("as_any_mut()"))?;
    rule.works("set_zero through as_any_mut()", exclusive.set_zero())?;
    rule.has(
        &*buffer,
        &[T::zeroed(); 3],
        "after set_zero through as_any_mut()",
    )
}
