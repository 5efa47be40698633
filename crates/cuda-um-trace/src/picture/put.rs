//! Appends formatted text to a page or a drawing.

macro_rules! put {
    ($page:expr, $($text:tt)*) => {{
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!($page, $($text)*);
    }};
}

pub(super) use put;
