//! What all drawings share.

use std::fmt::{Arguments, Write};

pub(crate) fn put(svg: &mut String, text: Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = svg.write_fmt(text);
}

/// The beginning of an SVG file with its own light background and a title for screen readers.
pub(crate) fn begin(title: &str, width: f64, height: f64) -> String {
    let title = markup(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" font-family=\"Helvetica,Arial,sans-serif\" \
        font-size=\"12\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n\
        <rect width=\"{width}\" height=\"{height:.0}\" fill=\"#fff\"/>\n\
        <text x=\"16\" y=\"24\" font-size=\"15\" font-weight=\"bold\" fill=\"#16181d\">{title}</text>\n"
    )
}

/// An entry of a key: a square of a colour, and its meaning. `bottom` is the lower edge of the drawing.
pub(crate) fn key(svg: &mut String, (x, bottom): (f64, f64), colour: &str, text: &str) {
    put(
        svg,
        format_args!(
            "<rect x=\"{x}\" y=\"{:.0}\" width=\"11\" height=\"11\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{:.0}\" fill=\"#5d6470\">{text}</text>\n",
            bottom - 20.0,
            x + 16.0,
            bottom - 10.0
        ),
    );
}

/// Escapes a name, which may contain any character. Those that XML forbids become replacement characters.
pub(crate) fn markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}
