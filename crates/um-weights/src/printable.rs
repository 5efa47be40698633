//! Text of files in messages.

use std::path::Path;

/// Returns text as a terminal may show it: characters that control a terminal, end a line or change the direction of text are escapes. A file may
/// have them in names, types and metadata. The messages of [`Error`](crate::Error) are shown so.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let is_hidden = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
        match c.is_control() || is_hidden {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// A path in a message.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}
