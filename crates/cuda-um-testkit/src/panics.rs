//! The text of a panic.

use std::any::Any;

/// The text with which a thread or a closure panicked.
pub fn message(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<String>() {
        Some(text) => text,
        None => panic.downcast_ref::<&str>().copied().unwrap_or("a panic"),
    }
}
