//! The tables of the page: by buffer, operation and cause, and the access patterns.

use super::escape::{code_names, markup};
use super::table::{Cell, bytes, table, time};
use crate::report::line;
use crate::{MigrationReport, Trace, Traffic, patterns, units};

/// The columns of [`traffic_cells`].
const TRAFFIC: [&str; 9] = [
    "to devices",
    "to host",
    "migrations",
    "CPU faults",
    "GPU faults",
    "groups",
    "thrashing",
    "remote",
    "moving",
];

pub(super) fn tables(page: &mut String, trace: &Trace, report: &MigrationReport) {
    let head = [&["buffer", "size"][..], &TRAFFIC, &["avoidable"]].concat();
    table(page, "By buffer", &head, by_buffer(report));
    let head = [&["during", "times"][..], &TRAFFIC].concat();
    table(page, "By operation", &head, by_operation(report));
    let head = [
        "cause",
        "to devices",
        "to host",
        "between devices",
        "migrations",
        "moving",
    ];
    table(page, "By cause", &head, by_cause(report));
    let head = ["buffer", "use", "suggests"];
    table(page, "Access patterns", &head, access_patterns(trace));
}

/// A cell without a title.
fn plain(html: impl Into<String>) -> Cell {
    (html.into(), String::new())
}

fn by_buffer(report: &MigrationReport) -> Vec<Vec<Cell>> {
    let moved = report
        .buffers
        .iter()
        .filter(|line| line.traffic != Traffic::default());
    let cells = moved.map(|line| {
        let site = line.site.as_ref().map_or(String::new(), |site| {
            format!(" <small>{}</small>", markup(site))
        });
        let mut cells = vec![
            plain(format!("{}{site}", markup(&line.name))),
            (units::bytes(line.bytes), line.bytes.to_string()),
        ];
        cells.extend(traffic_cells(&line.traffic));
        cells.push(time(line.avoidable.time));
        cells
    });
    cells.collect()
}

fn by_operation(report: &MigrationReport) -> Vec<Vec<Cell>> {
    let cells = report.operations.iter().map(|line| {
        let mut cells = vec![plain(code_names(&line.name)), plain(line.times.to_string())];
        cells.extend(traffic_cells(&line.traffic));
        cells
    });
    cells.collect()
}

fn by_cause(report: &MigrationReport) -> Vec<Vec<Cell>> {
    let cells = report.causes.iter().map(|line| {
        let traffic = &line.traffic;
        vec![
            plain(line::cause(line.cause)),
            bytes(traffic.to_device_bytes),
            bytes(traffic.to_host_bytes),
            bytes(traffic.between_devices_bytes),
            plain(traffic.migrations.to_string()),
            time(traffic.migrating),
        ]
    });
    cells.collect()
}

fn access_patterns(trace: &Trace) -> Vec<Vec<Cell>> {
    let cells = patterns(trace).into_iter().map(|one| {
        vec![
            plain(markup(&one.name)),
            plain(markup(&one.usage.to_string())),
            plain(markup(&one.suggestion_text())),
        ]
    });
    cells.collect()
}

fn traffic_cells(traffic: &Traffic) -> Vec<Cell> {
    let number = |number: u64| match number {
        0 => plain("–"),
        _ => plain(number.to_string()),
    };
    vec![
        bytes(traffic.to_device_bytes + traffic.between_devices_bytes),
        bytes(traffic.to_host_bytes),
        number(traffic.migrations),
        number(traffic.cpu_faults),
        number(traffic.gpu_faults),
        number(traffic.gpu_fault_groups),
        number(traffic.thrashing + traffic.throttling),
        number(traffic.remote_maps),
        time(traffic.migrating),
    ]
}
