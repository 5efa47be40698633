//! The report as text.

use crate::args::Args;
use crate::inputs::{Inputs, Vectors};
use serde_json::Value;

/// The numbers of each kind of buffer, and the matches of the first queries.
pub fn text(report: &Value, inputs: &Inputs, args: &Args) -> String {
    let (targets, queries) = (&inputs.targets, &inputs.queries);
    let (rows, dim, count, k) = (targets.rows, targets.dim, queries.rows, args.k);
    let mut text = format!("{count} queries, {rows} targets of {dim} numbers: the top {k}\n");
    let on = report["on"].as_str().unwrap_or_default();
    text += &format!("on {on} (predicted_us: the time there)\n\n");
    let runs = report["runs"].as_array().map_or(&[][..], Vec::as_slice);
    let table: Vec<_> = runs.iter().map(numbers).collect();
    for (row, (name, _)) in table[0].iter().enumerate() {
        let cells = table
            .iter()
            .map(|numbers| format!("{:>14}", numbers[row].1));
        text += &format!("{name:<26}{}\n", cells.collect::<String>());
    }
    for run in runs {
        let notes = run["notes"].as_array().into_iter().flatten();
        notes.for_each(|note| text += &format!("{}: {note}\n", run["buffer"]));
    }
    if report["agree"] == true {
        text += &format!("All {} give the same top {k} cosines.\n", runs.len());
    }
    for query in 0..args.show.min(count) {
        text += &format!("\n\"{}\"\n", shown(queries, "query", query));
        for hit in (0..k.min(3)).map(|rank| &runs[0]["top"][query][rank]) {
            let target = hit["target"].as_u64().unwrap_or_default() as usize;
            let is_right = inputs.has_truth && target == query;
            let mark = if is_right { '*' } else { ' ' };
            let target = shown(targets, "target", target);
            text += &format!(
                "  {mark} {:.4}  {target}\n",
                hit["cosine"].as_f64().unwrap_or_default()
            );
        }
    }
    text
}

/// The numbers of a run, with their names in the JSON object.
fn numbers(run: &Value) -> Vec<(String, String)> {
    let shown = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        value => value.to_string().replace('"', ""),
    };
    let mut numbers = Vec::new();
    for (name, value) in run.as_object().into_iter().flatten() {
        match value {
            Value::Object(parts) => {
                let named = |(part, value)| (format!("{name} {part}"), shown(value));
                numbers.extend(parts.iter().map(named));
            }
            Value::Array(_) => {}
            value => numbers.push((name.clone(), shown(value))),
        }
    }
    numbers
}

/// The text of a row for a terminal: without control characters, and at most 100 characters long.
fn shown(of: &Vectors, what: &str, row: usize) -> String {
    let number = format!("{what} {row}");
    let text = of.texts.as_ref().map_or(&number, |texts| &texts[row]);
    let visible = text.chars().filter(|one| !one.is_control());
    visible.take(100).collect()
}
