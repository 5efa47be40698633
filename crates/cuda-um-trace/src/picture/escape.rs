//! Escapes names, which come from programs and may contain any character.

/// For HTML and XML, in text and in quoted attributes. Control characters, which XML forbids, become replacement characters.
pub(super) fn markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Names in backticks become code. A backtick inside a name only changes the place at which code begins.
pub(super) fn code_names(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        match index % 2 {
            0 => html += &markup(part),
            _ => html += &format!("<code>{}</code>", markup(part)),
        }
    }
    html
}

/// JSON for a `<script>` element: no tag can begin or end in it.
pub(super) fn json_in_html(json: &str) -> String {
    // Outside of strings JSON does not contain these characters.
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}
