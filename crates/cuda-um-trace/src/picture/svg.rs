//! A static drawing, for example for a README.

use super::data::{Map, Picture};
use super::escape::markup;
use super::item::{Colour, Lane};
use super::put::put;
use crate::residency::State;
use crate::{MigrationReport, Trace, units};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 16.0;
const LANE: f64 = 22.0;
const HEAD: f64 = 58.0;
/// Items are drawn in columns of this width: narrower ones are invisible.
const COLUMN: f64 = 0.5;
/// Buffers in the picture.
const MAPS: usize = 8;

/// A timeline of a trace and the location of each block over time, as one SVG file of bounded size. It has its own light
/// background, and a title for screen readers.
pub fn svg(trace: &Trace, report: &MigrationReport) -> String {
    let picture = Picture::of(trace, report);
    let lanes_end = HEAD + picture.lanes.len() as f64 * LANE;
    let maps = &picture.maps[..picture.maps.len().min(MAPS)];
    let mut top = lanes_end + 34.0;
    let mut tops = Vec::new();
    for map in maps {
        tops.push(top);
        top += height(map) + 8.0;
    }
    let end = top + 30.0;
    let title = format!(
        "{} of unified memory: {} to devices, {} to the host, {}, {}",
        units::time(report.duration),
        units::bytes(report.total.to_device_bytes),
        units::bytes(report.total.to_host_bytes),
        units::count(report.total.gpu_faults, "GPU fault"),
        units::count(report.total.cpu_faults, "CPU fault"),
    );
    let title = markup(&title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {end:.0}\" font-family=\"Helvetica,Arial,sans-serif\" \
        font-size=\"12\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{end:.0}\" fill=\"#fff\"/>\n\
        <text x=\"16\" y=\"24\" font-size=\"15\" font-weight=\"bold\" fill=\"#16181d\">{title}</text>\n"
    );
    axis(&mut svg, &picture, top);
    for (index, lane) in picture.lanes.iter().enumerate() {
        draw_lane(&mut svg, &picture, lane, HEAD + index as f64 * LANE);
    }
    if !maps.is_empty() {
        put!(
            svg,
            "<text x=\"16\" y=\"{:.0}\" font-weight=\"bold\" fill=\"#16181d\">where each block was</text>\n",
            lanes_end + 24.0
        );
    }
    // Blocks are adjacent: smoothed edges would show as stripes.
    svg += "<g shape-rendering=\"crispEdges\">\n";
    for (map, &top) in maps.iter().zip(&tops) {
        draw_map(&mut svg, &picture, map, top);
    }
    svg += "</g>\n";
    for (map, &top) in maps.iter().zip(&tops) {
        name(&mut svg, &map.name, top + height(map) / 2.0);
    }
    key(&mut svg, end - 14.0);
    svg += "</svg>\n";
    svg
}

fn x(picture: &Picture, time: u64) -> f64 {
    LEFT + time as f64 / picture.end as f64 * (WIDTH - LEFT - RIGHT)
}

fn axis(svg: &mut String, picture: &Picture, bottom: f64) {
    let rough = picture.end as f64 / 7.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps
        .into_iter()
        .find(|&step| step >= rough)
        .unwrap_or(rough);
    let mut time = 0.0;
    while time <= picture.end as f64 {
        let at = x(picture, time as u64);
        put!(
            svg,
            "<path d=\"M{at:.1} {:.0}V{:.0}\" stroke=\"#e3e5e9\"/><text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#5d6470\">{}</text>\n",
            HEAD - 4.0,
            bottom - 8.0,
            HEAD - 9.0,
            units::nanoseconds(time as u64)
        );
        time += step.max(1.0);
    }
}

/// Adjacent items of one colour become one rectangle, so that the size of the file depends on pixels.
fn draw_lane(svg: &mut String, picture: &Picture, lane: &Lane, top: f64) {
    let middle = top + LANE / 2.0;
    name(svg, &lane.name, middle);
    let mut open: Vec<(Colour, f64, f64)> = Vec::new();
    let mut rectangles = Vec::new();
    for item in &lane.items {
        let from = x(picture, item.start);
        let until = x(picture, item.start + item.length).max(from + COLUMN);
        match open.iter_mut().find(|(colour, ..)| *colour == item.colour) {
            Some((_, _, end)) if from <= *end + COLUMN => *end = end.max(until),
            Some(entry) => {
                rectangles.push(*entry);
                *entry = (item.colour, from, until);
            }
            None => open.push((item.colour, from, until)),
        }
    }
    rectangles.extend(open);
    for (colour, from, until) in rectangles {
        put!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>\n",
            top + 2.0,
            (until - from).max(COLUMN),
            LANE - 4.0,
            Colour::HEX[colour as usize]
        );
    }
}

fn name(svg: &mut String, name: &str, middle: f64) {
    let short: String = match name.chars().count() {
        ..=21 => name.to_owned(),
        _ => name.chars().take(20).chain(['…']).collect(),
    };
    put!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#16181d\">{}</text>\n",
        LEFT - 8.0,
        middle + 4.0,
        markup(&short)
    );
}

fn height(map: &Map) -> f64 {
    (map.residency.first.len() as f64 * 3.0).clamp(16.0, 48.0)
}

fn draw_map(svg: &mut String, picture: &Picture, map: &Map, top: f64) {
    let count = map.residency.first.len();
    let row = height(map) / count as f64;
    let within = |time: u64| x(picture, time.min(picture.end));
    let (born, dead) = (within(map.alive.0), within(map.alive.1));
    let mut since: Vec<(f64, State)> = map
        .residency
        .first
        .iter()
        .map(|&state| (born, state))
        .collect();
    let mut rectangle = |block: usize, from: f64, until: f64, state: State| {
        put!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{:.2}\" width=\"{:.1}\" height=\"{:.2}\" fill=\"{}\"/>\n",
            top + block as f64 * row,
            until - from,
            row + 0.1,
            colour(state)
        );
    };
    for change in &map.residency.changes {
        let block = change.block as usize;
        let (from, state) = since[block];
        let until = x(picture, change.time).clamp(born, dead);
        // A state that is too short to be visible is left out; the state before continues until then.
        if until - from >= COLUMN {
            rectangle(block, from, until, state);
            since[block].0 = until;
        }
        since[block].1 = change.state;
    }
    for (block, &(from, state)) in since.iter().enumerate() {
        if dead > from {
            rectangle(block, from, dead, state);
        }
    }
}

fn colour(state: State) -> String {
    const HOST: [f64; 3] = [224.0, 165.0, 38.0];
    const DEVICE: [f64; 3] = [37.0, 102.0, 176.0];
    match state {
        State::Unknown => "#c9cdd3".to_owned(),
        State::Both => "#2f9e8f".to_owned(),
        State::OnDevice(share) => {
            let part = f64::from(share) / 100.0;
            let mixed = [0, 1, 2]
                .map(|index| (HOST[index] + (DEVICE[index] - HOST[index]) * part).round() as u8);
            format!("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2])
        }
    }
}

fn key(svg: &mut String, y: f64) {
    let entries = [
        ("asked for", Colour::HEX[Colour::User as usize]),
        ("page fault", Colour::HEX[Colour::Fault as usize]),
        ("around a fault", Colour::HEX[Colour::Around as usize]),
        ("eviction", Colour::HEX[Colour::Eviction as usize]),
        ("on the host", "#e0a526"),
        ("on a device", "#2566b0"),
        ("on both", "#2f9e8f"),
        ("not known", "#c9cdd3"),
    ];
    let mut at = LEFT;
    for (text, colour) in entries {
        put!(
            svg,
            "<rect x=\"{at:.0}\" y=\"{:.0}\" width=\"11\" height=\"11\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"{y:.0}\" fill=\"#5d6470\">{text}</text>\n",
            y - 10.0,
            at + 16.0
        );
        at += 34.0 + text.len() as f64 * 6.2;
    }
}
