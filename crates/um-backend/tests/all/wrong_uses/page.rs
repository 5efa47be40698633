//! The tables of `docs/errors.md`.

const PAGE: &str = include_str!("../../../../../docs/errors.md");

/// A wrong use, and its message.
pub struct Row {
    pub wrong: String,
    pub message: String,
}

impl Row {
    pub fn new(wrong: &str, message: impl Into<String>) -> Self {
        Self {
            wrong: wrong.to_owned(),
            message: without_addresses(&message.into()),
        }
    }
}

/// One row of the page for each message.
fn in_markdown(rows: &[Row]) -> Vec<String> {
    let mut wrong: Vec<(String, &str)> = Vec::new();
    for row in rows {
        match wrong.iter_mut().find(|(_, said)| *said == row.message) {
            Some((uses, _)) => *uses += &format!("; {}", row.wrong),
            None => wrong.push((row.wrong.clone(), &row.message)),
        }
    }
    let line = |(wrong, message): (String, &str)| {
        let (before, after) = if message.contains('`') {
            ("`` ", " ``")
        } else {
            ("`", "`")
        };
        let message = message.replace('|', "\\|");
        format!("| {wrong} | {before}{message}{after} |")
    };
    wrong.into_iter().map(line).collect()
}

/// `…` in place of the digits after `0x` and after `buffer `, which differ from run to run.
fn without_addresses(text: &str) -> String {
    let mut result = text.to_owned();
    for (start, is_digit) in [
        ("0x", char::is_alphanumeric as fn(char) -> bool),
        ("address: ", char::is_alphanumeric),
        ("buffer ", char::is_numeric),
    ] {
        let mut parts = result.split(start);
        let mut masked = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = part.trim_start_matches(is_digit);
            let digits = if rest.len() < part.len() { "…" } else { "" };
            masked += &format!("{start}{digits}{rest}");
        }
        result = masked;
    }
    result
}

/// The rows of the page's section, without the head of the table.
fn section(name: &str) -> Vec<&'static str> {
    let sections = PAGE.split("\n## ").skip(1);
    let mut found = sections.filter(|section| section.lines().next() == Some(name));
    let text = found.next().unwrap_or_default();
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.skip(1).collect()
}

/// Compares the rows with a section of the page.
pub fn check(name: &str, rows: &[Row]) {
    for row in rows {
        assert_eq!(row.message.lines().count(), 1, "{:?}", row.message);
    }
    let expected = in_markdown(rows);
    assert!(
        section(name) == expected,
        "the table below `## {name}` in docs/errors.md must be\n\n| wrong use | message |\n|---|---|\n{}\n",
        expected.join("\n")
    );
}
