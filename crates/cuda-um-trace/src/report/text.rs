//! The report for a terminal.

use super::{MigrationReport, Traffic, line};
use crate::units;
use std::fmt;
use std::time::Duration;

/// Limit on the lines of a table, and on the findings, for a terminal.
const MOST: usize = 20;
/// Characters of a line.
const WIDTH: usize = 100;
/// Characters of a buffer's name in a table with many columns; and of other names.
const BUFFER: usize = 24;
const NAME: usize = 36;

impl fmt::Display for MigrationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = &self.total;
        writeln!(
            f,
            "{} of {} (CUDA {})",
            units::time(self.duration),
            clean(&self.source.name),
            clean(&self.source.cuda)
        )?;
        if let Some(warning) = self.warning() {
            writeln!(f, "warning: {warning}")?;
        }
        if *total == Traffic::default() {
            return writeln!(f, "Nothing moved, and nothing faulted.");
        }
        writeln!(
            f,
            "{} to devices, {} to the host, {}; {}, {}",
            units::bytes(total.to_device_bytes),
            units::bytes(total.to_host_bytes),
            units::count(total.migrations, "migration"),
            units::count(total.gpu_faults, "GPU fault"),
            units::count(total.cpu_faults, "CPU fault"),
        )?;
        writeln!(
            f,
            "avoidable: {}, {}, {}\n(cost model: {})",
            units::time(self.avoidable.time),
            units::count(self.avoidable.faults, "fault"),
            units::bytes(self.avoidable.bytes),
            clean(&self.cost_model)
        )?;
        self.write_findings(f)?;
        self.write_buffers(f)?;
        let by_operation = self.operations.iter();
        let by_operation = by_operation.map(|line| traffic_row(&line.name, &line.traffic));
        table(f, &OPERATIONS, by_operation)?;
        let causes = self.causes.iter().map(|line| {
            let traffic = &line.traffic;
            vec![
                line::cause(line.cause).to_owned(),
                bytes_or_none(traffic.to_device_bytes),
                bytes_or_none(traffic.to_host_bytes),
                bytes_or_none(traffic.between_devices_bytes),
                number(traffic.migrations),
                time_or_none(traffic.migrating),
            ]
        });
        table(f, &CAUSES, causes)
    }
}

const BUFFERS: [&str; 9] = [
    "buffer",
    "size",
    "to device",
    "to host",
    "moves",
    "CPU f.",
    "GPU f.",
    "moving",
    "avoidable",
];
const OPERATIONS: [&str; 7] = [
    "during",
    "to device",
    "to host",
    "moves",
    "CPU f.",
    "GPU f.",
    "moving",
];
const CAUSES: [&str; 6] = [
    "cause",
    "to device",
    "to host",
    "between",
    "moves",
    "moving",
];

impl MigrationReport {
    /// A warning if the numbers are not complete.
    pub(crate) fn warning(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.dropped_records > 0 {
            let records = units::count(self.dropped_records, "record");
            parts.push(format!(
                "{records} dropped, so the numbers below are too low"
            ));
        }
        if self.dropped_operations > 0 {
            let dropped = self.dropped_operations;
            parts.push(format!(
                "{dropped} buffers, kernels or operations not stored, so some lines may be attributed wrongly"
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn write_findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.findings.is_empty() {
            return writeln!(f, "\nNothing to change.");
        }
        writeln!(f)?;
        for (index, finding) in self.findings.iter().take(MOST).enumerate() {
            wrap(f, &format!("{:>2}. {finding}", index + 1))?;
            if let Some(code) = &finding.code {
                writeln!(f, "      {}", clean(code))?;
            }
        }
        rest(f, self.findings.len(), "findings")
    }

    fn write_buffers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = self.buffers.iter();
        let moved: Vec<_> = moved
            .filter(|line| line.traffic != Traffic::default())
            .collect();
        let rows = moved.iter().map(|line| {
            let mut row = traffic_row(&line.name, &line.traffic);
            let size = match line.id {
                Some(_) => units::bytes(line.bytes),
                None => "-".to_owned(),
            };
            row.insert(1, size);
            row.push(time_or_none(line.avoidable.time));
            row
        });
        table(f, &BUFFERS, rows)
    }
}

fn traffic_row(name: &str, traffic: &Traffic) -> Vec<String> {
    vec![
        name.to_owned(),
        bytes_or_none(traffic.to_device_bytes),
        bytes_or_none(traffic.to_host_bytes),
        number(traffic.migrations),
        number(traffic.cpu_faults),
        number(traffic.gpu_faults),
        time_or_none(traffic.migrating),
    ]
}

/// A table with the first column aligned left and the others aligned right. Without rows it prints nothing.
fn table(
    f: &mut fmt::Formatter<'_>,
    head: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> fmt::Result {
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut shown: Vec<Vec<String>> = vec![head.iter().map(|&text| text.to_owned()).collect()];
    shown.extend(rows.iter().take(MOST).map(|row| {
        let mut row = row.clone();
        row[0] = shorten(&row[0], head.len() > OPERATIONS.len());
        row
    }));
    let width = |column: usize| {
        let cells = shown.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    writeln!(f)?;
    for row in &shown {
        write!(f, "{:<1$}", row[0], widths[0])?;
        for (cell, &width) in row.iter().zip(&widths).skip(1) {
            write!(f, "  {cell:>width$}")?;
        }
        writeln!(f)?;
    }
    rest(f, rows.len(), "lines")
}

/// Prints a sentence in lines of at most 100 characters; continuation lines are indented.
fn wrap(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut width = 0;
    let (number, sentence) = text.split_at(4.min(text.len()));
    write!(f, "{number}")?;
    for word in sentence.split(' ') {
        let letters = word.chars().count();
        if width > 0 && width + 1 + letters > WIDTH - 4 {
            write!(f, "\n    {}", clean(word))?;
            width = letters;
        } else {
            let space = if width > 0 { " " } else { "" };
            write!(f, "{space}{}", clean(word))?;
            width += letters + space.len();
        }
    }
    writeln!(f)
}

fn rest(f: &mut fmt::Formatter<'_>, all: usize, what: &str) -> fmt::Result {
    match all.checked_sub(MOST) {
        Some(more @ 1..) => writeln!(f, "… and {more} {what} more"),
        _ => Ok(()),
    }
}

/// Replaces control characters, which could break the table or control the terminal.
fn clean(text: &str) -> String {
    let clean = text.chars().map(|letter| match letter.is_control() {
        true => '\u{fffd}',
        false => letter,
    });
    clean.collect()
}

fn shorten(name: &str, wide: bool) -> String {
    let name = clean(name);
    let most = if wide { BUFFER } else { NAME };
    match name.chars().count() {
        length if length <= most => name,
        _ => name.chars().take(most - 1).chain(['…']).collect(),
    }
}

fn number(number: u64) -> String {
    match number {
        0 => "-".to_owned(),
        _ => number.to_string(),
    }
}

fn bytes_or_none(bytes: u64) -> String {
    match bytes {
        0 => "-".to_owned(),
        _ => units::bytes(bytes),
    }
}

fn time_or_none(time: Duration) -> String {
    match time {
        Duration::ZERO => "-".to_owned(),
        _ => units::time(time),
    }
}
