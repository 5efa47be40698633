//! The page: one file, without network requests.

use super::data::Picture;
use super::escape::{code_names, json_in_html, markup};
use super::json::json;
use super::put::put;
use super::tables::tables;
use crate::{Finding, MigrationReport, Trace, units};
use std::time::Duration;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Forbids all network requests.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/// Number of findings that are visible at once.
const FINDINGS: usize = 6;
const MOVERS: usize = 8;

/// A page that shows a trace and its report: findings, the buffers that moved most, a timeline, the location of each block over
/// time, tables.
///
/// It is one file without links: its content security policy forbids every request. Findings and tables are plain HTML. A
/// script draws the timeline and the residency map, and stays fast with 100,000 records.
pub fn html(trace: &Trace, report: &MigrationReport) -> String {
    let picture = Picture::of(trace, report);
    let mut page = String::with_capacity(1 << 16);
    let title = format!(
        "Unified memory: {} to devices, {} to the host",
        units::bytes(report.total.to_device_bytes),
        units::bytes(report.total.to_host_bytes)
    );
    page += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
        <meta name=\"color-scheme\" content=\"light dark\">\n";
    page += "<meta http-equiv=\"Content-Security-Policy\" content=\"";
    page += POLICY;
    page += "\">\n";
    put!(
        page,
        "<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        markup(&title)
    );
    header(&mut page, trace, report);
    findings(&mut page, report);
    movers(&mut page, report);
    pictures(&mut page, &picture);
    tables(&mut page, trace, report);
    let json = json_in_html(&json(&picture));
    put!(
        page,
        "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n\
            <script type=\"application/json\" id=\"data\">{json}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    page
}

fn header(page: &mut String, trace: &Trace, report: &MigrationReport) {
    let devices: Vec<String> = trace.devices.iter().map(|one| markup(&one.name)).collect();
    put!(
        page,
        "<header>\n<h1>Unified memory migrations</h1>\n<p class=\"sub\">{} on {} · recorded by {} (CUDA {})</p>\n",
        units::time(report.duration),
        match devices.is_empty() {
            true => "no known device".to_owned(),
            false => devices.join(", "),
        },
        markup(&report.source.name),
        markup(&report.source.cuda)
    );
    if let Some(warning) = report.warning() {
        put!(
            page,
            "<p class=\"warning\" role=\"alert\">{}</p>\n",
            markup(&warning)
        );
    }
    let total = &report.total;
    let cards = [
        ("to devices", units::bytes(total.to_device_bytes), ""),
        ("to the host", units::bytes(total.to_host_bytes), ""),
        ("migrations", total.migrations.to_string(), ""),
        ("GPU faults", total.gpu_faults.to_string(), ""),
        ("CPU faults", total.cpu_faults.to_string(), ""),
        ("moving", units::time(total.migrating), ""),
        (
            "avoidable",
            units::time(report.avoidable.time),
            match report.avoidable.time {
                Duration::ZERO => " good",
                _ => " bad",
            },
        ),
    ];
    page.push_str("<dl class=\"cards\">\n");
    for (name, value, class) in cards {
        put!(
            page,
            "<div class=\"card{class}\"><dt>{name}</dt><dd>{value}</dd></div>\n"
        );
    }
    page.push_str("</dl>\n</header>\n");
}

fn findings(page: &mut String, report: &MigrationReport) {
    page.push_str("<section>\n<h2>Suggested changes</h2>\n");
    if report.findings.is_empty() {
        page.push_str("<p>Nothing: no migration or fault was found that a call would avoid.</p>\n</section>\n");
        return;
    }
    let most = report
        .findings
        .iter()
        .map(|one| one.saves.time)
        .max()
        .unwrap_or_default();
    let (shown, more) = report
        .findings
        .split_at(report.findings.len().min(FINDINGS));
    list(page, 1, shown, most);
    if !more.is_empty() {
        put!(page, "<details><summary>{} more</summary>\n", more.len());
        list(page, FINDINGS + 1, more, most);
        page.push_str("</details>\n");
    }
    put!(
        page,
        "<p class=\"sub\">Savings are estimates of the cost model: {}.</p>\n</section>\n",
        markup(&report.cost_model)
    );
}

/// Findings, numbered from `first` on. The bars are relative to the largest saving, `most`.
fn list(page: &mut String, first: usize, findings: &[Finding], most: Duration) {
    put!(page, "<ol class=\"findings\" start=\"{first}\">\n");
    for finding in findings {
        let share = finding.saves.time.as_secs_f64() / most.as_secs_f64().max(1e-12) * 100.0;
        let (bar, way) = match finding.alternative {
            true => (" other", " <i>(another way to the same saving)</i>"),
            false => ("", ""),
        };
        page.push_str("<li>");
        if finding.saves.time > Duration::ZERO {
            put!(
                page,
                "<p class=\"saves\">saves about {}<span class=\"bar{bar}\" style=\"width:{share:.1}%\"></span></p>",
                units::time(finding.saves.time)
            );
        }
        put!(
            page,
            "<p><b>{}</b>: {}{way}</p>",
            code_names(&finding.observation()),
            markup(finding.advice())
        );
        if let Some(code) = &finding.code {
            put!(page, "<pre><code>{}</code></pre>", markup(code));
        }
        page.push_str("</li>\n");
    }
    page.push_str("</ol>\n");
}

fn movers(page: &mut String, report: &MigrationReport) {
    let mut lines: Vec<_> = report
        .buffers
        .iter()
        .filter(|line| line.traffic.bytes() > 0)
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.traffic.bytes()));
    let Some(most) = lines.first().map(|line| line.traffic.bytes()) else {
        return;
    };
    page.push_str("<section>\n<h2>Buffers that moved most</h2>\n<div class=\"movers\">\n");
    for line in lines.iter().take(MOVERS) {
        let share = |bytes: u64| bytes as f64 / most as f64 * 100.0;
        let traffic = &line.traffic;
        put!(
            page,
            "<span class=\"name\" title=\"{0}\">{0}</span><span class=\"track\"><span class=\"in\" style=\"width:{1:.2}%\"></span>\
                <span class=\"out\" style=\"width:{2:.2}%\"></span></span><span class=\"num\">{3} in, {4} out</span>\n",
            markup(&line.name),
            share(traffic.to_device_bytes + traffic.between_devices_bytes),
            share(traffic.to_host_bytes),
            units::bytes(traffic.to_device_bytes + traffic.between_devices_bytes),
            units::bytes(traffic.to_host_bytes)
        );
    }
    page.push_str(
        "</div>\n<p class=\"key\"><span class=\"swatch in\"></span>to devices <span class=\"swatch out\"></span>to the host</p>\n</section>\n",
    );
}

fn pictures(page: &mut String, picture: &Picture) {
    page.push_str(
        "<section>\n<h2>Timeline</h2>\n<div class=\"tools\"><button id=\"in\" type=\"button\" title=\"zoom in\">+</button>\
        <button id=\"out\" type=\"button\" title=\"zoom out\">−</button><button id=\"fit\" type=\"button\">all</button>\
        <span class=\"sub\">drag to move · ctrl + wheel or double click to zoom · arrow keys, +, − and 0 when focused</span>\
        <span id=\"drawn\" class=\"sub\"></span></div>\n\
        <canvas id=\"timeline\" tabindex=\"0\" role=\"img\" aria-label=\"Timeline of operations, kernels, migrations and faults; the tables below have the same numbers\"></canvas>\n\
        <p class=\"key\" id=\"key\"></p>\n\
        <h2>Where each block was</h2>\n\
        <canvas id=\"residency\" tabindex=\"0\" role=\"img\" aria-label=\"For each buffer, where each of its blocks was over time\"></canvas>\n\
        <p class=\"key\"><span class=\"swatch host\"></span>on the host <span class=\"swatch device\"></span>on a device \
        <span class=\"swatch both\"></span>on both <span class=\"swatch unknown\"></span>not known</p>\n",
    );
    if picture.maps_left_out > 0 {
        put!(
            page,
            "<p class=\"sub\">{} buffers that moved less are not shown.</p>\n",
            picture.maps_left_out
        );
    }
    page.push_str("<noscript><p class=\"warning\">Only the pictures need scripts.</p></noscript>\n</section>\n");
}
