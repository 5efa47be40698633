//! Appends formatted text to a page or a drawing.

use std::fmt::{Arguments, Write};

pub(super) fn put(page: &mut String, text: Arguments) {
    // Writing to a string cannot fail.
    let _ = page.write_fmt(text);
}
