//! Formatted text at the end of a page or a drawing.

use std::fmt::{Arguments, Write};

pub(super) fn put(page: &mut String, text: Arguments) {
    // A string takes everything.
    let _ = page.write_fmt(text);
}
