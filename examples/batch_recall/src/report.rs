//! The report as text, and whether the kinds of buffers agree.

use crate::inputs::{Inputs, Vectors};
use serde_json::Value;

/// The rows of the table, each with its place in the object of a run.
const ROWS: [(&str, &str); 14] = [
    ("", "/buffer"),
    ("recall@1", "/recall_at_1"),
    ("recall@10", "/recall_at_10"),
    ("load, us", "/phases_us/load"),
    ("place, us", "/phases_us/place"),
    ("compute, us", "/phases_us/compute"),
    ("read back, us", "/phases_us/to_vec"),
    ("place, predicted, us", "/predicted_us/place"),
    ("compute, predicted, us", "/predicted_us/compute"),
    ("read back, predicted, us", "/predicted_us/to_vec"),
    ("bytes to the device", "/migrated_bytes/to_device"),
    ("bytes to the host", "/migrated_bytes/to_host"),
    ("page faults, device", "/page_faults/device"),
    ("page faults, host", "/page_faults/host"),
];

/// The table, the recall, and the matches of the first `show` queries.
pub fn text(report: &Value, inputs: &Inputs, show: usize) -> String {
    let Inputs {
        targets,
        queries,
        k,
        ..
    } = inputs;
    let runs = report["runs"].as_array().map_or(&[][..], Vec::as_slice);
    let description = report["description"].as_str().unwrap_or_default();
    let (rows, dim) = (targets.rows, targets.dim);
    let mut text = format!(
        "{} queries in {rows} targets of {dim} numbers: the top {k} by cosine\n",
        queries.rows
    );
    text += &format!("on {description}\n\n");
    for (name, place) in ROWS {
        let cells = runs
            .iter()
            .map(|run| run.pointer(place).unwrap_or(&Value::Null));
        if !cells.clone().all(Value::is_null) {
            text += &format!("{name:<25}{}\n", cells.map(cell).collect::<String>());
        }
    }
    if report["runtime"] == "sim" {
        text += "\nTimes are wall-clock times of simulating; \"predicted\" is the cost model's time on the GPU.\n";
    }
    for run in runs {
        for note in run["notes"].as_array().into_iter().flatten() {
            text += &format!("{}: {note}\n", run["buffer"]);
        }
    }
    if agree(report).is_ok() {
        text += &format!("All {} give the same top {k}.\n", runs.len());
    }
    for query in 0..show.min(queries.rows) {
        text += &format!("\n\"{}\"\n", shown(queries, "query", query));
        for hit in (0..3).map(|rank| &runs[0]["top"][query][rank]) {
            let Some((target, cosine)) = hit["target"].as_u64().zip(hit["cosine"].as_f64()) else {
                break;
            };
            let mark = if inputs.has_truth && target == query as u64 {
                '*'
            } else {
                ' '
            };
            text += &format!(
                "  {mark} {cosine:.4}  {}\n",
                shown(targets, "target", target as usize)
            );
        }
    }
    text
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => format!("{:>16}", "-"),
        Value::Number(number) if number.is_f64() => {
            format!("{:>16.3}", number.as_f64().unwrap_or_default())
        }
        value => format!("{:>16}", value.to_string().replace('"', "")),
    }
}

/// The text of a row for a terminal: without control characters, and at most 100 characters long.
fn shown(of: &Vectors, what: &str, row: usize) -> String {
    let Some(texts) = &of.texts else {
        return format!("{what} {row}");
    };
    let text = texts[row].replace(char::is_control, " ");
    text.chars().take(100).collect()
}

/// The first place at which two runs differ by more than rounding: a cosine differs by more than 1e-5, or the targets differ
/// although the cosines around are not nearly equal.
pub fn agree(report: &Value) -> Result<(), String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let runs = list(&report["runs"]);
    for other in &runs[1..] {
        for (query, hits) in list(&runs[0]["top"]).iter().enumerate() {
            for (rank, hit) in list(hits).iter().enumerate() {
                let near = |other: &Value| {
                    let cosines = other["cosine"].as_f64().zip(hit["cosine"].as_f64());
                    cosines.is_none_or(|(one, two)| (one - two).abs() <= 1e-5)
                };
                let theirs = &other["top"][query][rank];
                let is_tied = near(&hits[rank + 1]) || rank > 0 && near(&hits[rank - 1]);
                if !near(theirs) || (hit["target"] != theirs["target"] && !is_tied) {
                    let place = format!("query {query}, rank {}", rank + 1);
                    return Err(format!("the buffers disagree: {place}: {hit}, {theirs}"));
                }
            }
        }
    }
    Ok(())
}
