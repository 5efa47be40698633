//! Tables of the page.

use super::escape::markup;
use super::put::put;
use crate::units;
use std::time::Duration;

/// Lines of a table that are visible at once; the others can be unfolded.
const SHOWN: usize = 25;

/// A cell: HTML, and the exact value as its title.
pub(super) type Cell = (String, String);

pub(super) fn bytes(bytes: u64) -> Cell {
    match bytes {
        0 => ("–".to_owned(), String::new()),
        _ => (units::bytes(bytes), format!("{bytes} bytes")),
    }
}

pub(super) fn time(time: Duration) -> Cell {
    match time {
        Duration::ZERO => ("–".to_owned(), String::new()),
        _ => (units::time(time), format!("{} ns", time.as_nanos())),
    }
}

/// Adds a section with a table. Without rows it adds nothing.
pub(super) fn table(page: &mut String, title: &str, head: &[&str], rows: Vec<Vec<Cell>>) {
    if rows.is_empty() {
        return;
    }
    let text = if title == "Access patterns" {
        " class=\"text\""
    } else {
        ""
    };
    put!(
        page,
        "<section>\n<h2>{title}</h2>\n<div class=\"scroll\"><table{text}>\n<thead><tr>"
    );
    for cell in head {
        put!(page, "<th scope=\"col\">{cell}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (index, row) in rows.iter().enumerate() {
        if index == SHOWN {
            put!(
                page,
                "</tbody></table></div>\n<details><summary>{} more</summary>\n<div class=\"scroll\"><table{text}><tbody>\n",
                rows.len() - SHOWN
            );
        }
        page.push_str("<tr>");
        for (html, exact) in row {
            match exact.is_empty() {
                true => put!(page, "<td>{html}</td>"),
                false => put!(page, "<td title=\"{}\">{html}</td>", markup(exact)),
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
    if rows.len() > SHOWN {
        page.push_str("</details>\n");
    }
    page.push_str("</section>\n");
}
