//! The contents of the page as compact JSON: lanes of items, and blocks that change.

use crate::report::line;
use crate::residency::{self, Residency, State};
use crate::{Attribution, Cause, MigrationReport, OperationKind, Place, RecordKind, Trace, units};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Buffers that get a residency map.
const MAPS: usize = 24;

/// Colours by kind of item: an index that the page and the SVG share.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[repr(u8)]
pub(super) enum Colour {
    Kernel = 0,
    Host = 1,
    Call = 2,
    User = 3,
    Fault = 4,
    Around = 5,
    Eviction = 6,
    Other = 7,
    GpuFault = 8,
    CpuFault = 9,
}

impl Colour {
    /// Okabe and Ito's colours, which colour-blind people can distinguish.
    pub(super) const HEX: [&str; 10] = [
        "#2f9e8f", "#e0a526", "#7f8c9b", "#3a7fd5", "#d5502e", "#e9a06b", "#7b3294", "#9aa0a6",
        "#b3446c", "#c98a1b",
    ];

    pub(super) fn of(cause: Cause) -> Self {
        match cause {
            Cause::User => Self::User,
            Cause::Coherence => Self::Fault,
            Cause::Prefetch => Self::Around,
            Cause::Eviction => Self::Eviction,
            Cause::Unknown | Cause::AccessCounters => Self::Other,
        }
    }
}

/// An item on a lane.
#[derive(Clone, Copy)]
pub(super) struct Item {
    /// Nanoseconds since the trace began.
    pub(super) start: u64,
    pub(super) length: u64,
    /// Index into the texts.
    pub(super) label: usize,
    /// Index into the texts.
    pub(super) detail: usize,
    /// Bytes, or faults.
    pub(super) amount: u64,
    pub(super) colour: Colour,
}

pub(super) struct Lane {
    pub(super) name: String,
    /// The unit of amounts: `"bytes"`, `"faults"` or empty.
    pub(super) unit: &'static str,
    /// By start.
    pub(super) items: Vec<Item>,
}

pub(super) struct Picture {
    /// Length of the trace.
    pub(super) end: u64,
    pub(super) texts: Vec<String>,
    pub(super) lanes: Vec<Lane>,
    pub(super) maps: Vec<Map>,
    /// Number of buffers without a map, because there are too many.
    pub(super) maps_left_out: usize,
}

pub(super) struct Map {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// The times of the buffer's allocation and free.
    pub(super) alive: (u64, u64),
    pub(super) residency: Residency,
}

impl Picture {
    pub(super) fn of(trace: &Trace, report: &MigrationReport) -> Self {
        let attribution = Attribution::of(trace);
        let last = trace.records.iter().map(|record| record.end);
        let last = last.chain(trace.kernels.iter().map(|run| run.end));
        let end = last.fold(trace.end, u64::max).saturating_sub(trace.start);
        let mut texts = Texts::default();
        let lanes = lanes(trace, &attribution, &mut texts);
        let (maps, maps_left_out) = maps(trace, report, &attribution, end);
        Self {
            end: end.max(1),
            texts: texts.all,
            lanes,
            maps,
            maps_left_out,
        }
    }

    /// Columns, with starts as differences: a tenth of the size of objects.
    pub(super) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct LaneJson<'a> {
            name: &'a str,
            unit: &'a str,
            starts: Vec<u64>,
            lengths: Vec<u64>,
            labels: Vec<usize>,
            details: Vec<usize>,
            amounts: Vec<u64>,
            colours: Vec<u8>,
        }
        #[derive(Serialize)]
        struct MapJson<'a> {
            name: &'a str,
            bytes: u64,
            block: u64,
            alive: (u64, u64),
            first: Vec<u8>,
            times: Vec<u64>,
            blocks: Vec<u32>,
            states: Vec<u8>,
        }
        #[derive(Serialize)]
        struct Json<'a> {
            end: u64,
            texts: &'a [String],
            lanes: Vec<LaneJson<'a>>,
            maps: Vec<MapJson<'a>>,
            colours: [&'a str; 10],
        }
        let differences = |times: &mut dyn Iterator<Item = u64>| {
            let mut before = 0;
            times
                .map(|time| time - std::mem::replace(&mut before, time))
                .collect()
        };
        let lanes = self.lanes.iter().map(|lane| {
            let items = || lane.items.iter();
            LaneJson {
                name: &lane.name,
                unit: lane.unit,
                starts: differences(&mut items().map(|item| item.start)),
                lengths: items().map(|item| item.length).collect(),
                labels: items().map(|item| item.label).collect(),
                details: items().map(|item| item.detail).collect(),
                amounts: items().map(|item| item.amount).collect(),
                colours: items().map(|item| item.colour as u8).collect(),
            }
        });
        let maps = self.maps.iter().map(|map| {
            let changes = || map.residency.changes.iter();
            MapJson {
                name: &map.name,
                bytes: map.bytes,
                block: map.residency.block_bytes,
                alive: map.alive,
                first: map.residency.first.iter().copied().map(code).collect(),
                times: differences(&mut changes().map(|change| change.time)),
                blocks: changes().map(|change| change.block).collect(),
                states: changes().map(|change| code(change.state)).collect(),
            }
        });
        let json = Json {
            end: self.end,
            texts: &self.texts,
            lanes: lanes.collect(),
            maps: maps.collect(),
            colours: Colour::HEX,
        };
        // Only numbers and strings: this cannot fail.
        serde_json::to_string(&json).unwrap_or_default()
    }
}

/// A state as a number: percent on the device, 101 for both, 102 for unknown.
fn code(state: State) -> u8 {
    match state {
        State::OnDevice(share) => share,
        State::Both => 101,
        State::Unknown => 102,
    }
}

#[derive(Default)]
struct Texts {
    all: Vec<String>,
    known: HashMap<String, usize>,
}

impl Texts {
    fn index(&mut self, text: String) -> usize {
        *self.known.entry(text).or_insert_with_key(|text| {
            self.all.push(text.clone());
            self.all.len() - 1
        })
    }
}

/// Lanes in drawing order: work, then migrations, then faults.
fn lanes(trace: &Trace, attribution: &Attribution, texts: &mut Texts) -> Vec<Lane> {
    let mut lanes: BTreeMap<(u8, u64, u64), Lane> = BTreeMap::new();
    let mut put = |key, name: &dyn Fn() -> String, unit, item| {
        let lane = lanes.entry(key).or_insert_with(|| Lane {
            name: name(),
            unit,
            items: Vec::new(),
        });
        lane.items.push(item);
    };
    let since = |time: u64| time.saturating_sub(trace.start);
    let ids = trace.buffers.iter();
    let names: HashMap<u64, Cow<str>> = ids.map(|one| (one.id, units::short(&one.name))).collect();
    for operation in &trace.operations {
        let over = operation.accesses.iter();
        let over = over.map(|one| names.get(&one.buffer).map_or("?", |name| name));
        let mut over: Vec<&str> = over.take(6).collect();
        if operation.accesses.len() > over.len() {
            over.push("…");
        }
        let left_out = matches!(
            operation.kind,
            OperationKind::Prefetch { left_out: true, .. }
        );
        let detail = match left_out {
            true => format!("{} (elided: data in place)", over.join(", ")),
            false => over.join(", "),
        };
        let on_host = operation.kind == OperationKind::Host;
        let item = Item {
            start: since(operation.start),
            length: operation.end.saturating_sub(operation.start),
            label: texts.index(units::short(&line::operation_name(&operation.kind)).into_owned()),
            detail: texts.index(detail),
            amount: 0,
            colour: if on_host { Colour::Host } else { Colour::Call },
        };
        match (on_host, operation.stream) {
            (true, _) => put((0, 0, 0), &|| "host access".to_owned(), "", item),
            (false, None) => put((1, 0, 0), &|| "calls".to_owned(), "", item),
            (false, Some(stream)) => {
                put(
                    (1, 1, stream),
                    &|| format!("calls, stream {stream}"),
                    "",
                    item,
                );
            }
        }
    }
    for run in &trace.kernels {
        let item = Item {
            start: since(run.start),
            length: run.end.saturating_sub(run.start),
            label: texts.index(units::short(&run.name).into_owned()),
            detail: texts.index(String::new()),
            amount: 0,
            colour: Colour::Kernel,
        };
        let name = || format!("kernels, GPU {} s{}", run.device, run.stream);
        put((2, run.device.into(), run.stream.into()), &name, "", item);
    }
    for (index, record) in trace.records.iter().enumerate() {
        let buffer = attribution.pieces(index)[0].buffer;
        let buffer = buffer.map_or(line::UNKNOWN, |buffer| &trace.buffers[buffer].name);
        let buffer = units::short(buffer);
        let during = line::name(trace, attribution.explanation(index));
        let during = units::short(&during);
        let mut item = |label: String, amount, colour| Item {
            start: since(record.start),
            length: record.end.saturating_sub(record.start),
            label: texts.index(label),
            detail: texts.index(format!("{buffer} · {during}")),
            amount,
            colour,
        };
        let other = Place::words;
        match record.kind {
            RecordKind::Migration {
                from,
                to,
                bytes,
                cause,
            } => {
                let item = item(line::cause(cause).to_owned(), bytes, Colour::of(cause));
                match (from, to) {
                    (Place::Device(from), Place::Device(to)) => {
                        let name = || format!("GPU {from} to GPU {to}");
                        put((5, from.into(), to.into()), &name, "bytes", item);
                    }
                    (_, Place::Device(to)) => {
                        put(
                            (3, to.into(), 0),
                            &|| format!("moves to GPU {to}"),
                            "bytes",
                            item,
                        );
                    }
                    (_, Place::Host) => {
                        put((4, 0, 0), &|| "moves to host".to_owned(), "bytes", item);
                    }
                }
            }
            RecordKind::GpuFault { device, faults, .. } => {
                let item = item("GPU faults".to_owned(), faults, Colour::GpuFault);
                put(
                    (6, device.into(), 0),
                    &|| format!("faults, GPU {device}"),
                    "faults",
                    item,
                );
            }
            RecordKind::CpuFault { .. } => {
                let item = item("CPU fault".to_owned(), 1, Colour::CpuFault);
                put((7, 0, 0), &|| "faults, host".to_owned(), "faults", item);
            }
            RecordKind::Thrashing { bytes } => {
                let item = item("thrashing".to_owned(), bytes, Colour::Fault);
                put((8, 0, 0), &|| "thrashing …".to_owned(), "bytes", item);
            }
            RecordKind::Throttling { place } => {
                let item = item(format!("throttled: {}", other(place)), 0, Colour::Eviction);
                put((8, 0, 0), &|| "thrashing …".to_owned(), "bytes", item);
            }
            RecordKind::RemoteMap { by, bytes, .. } => {
                let item = item(format!("mapped for {}", other(by)), bytes, Colour::Other);
                put((8, 0, 0), &|| "thrashing …".to_owned(), "bytes", item);
            }
        }
    }
    let mut lanes: Vec<Lane> = lanes.into_values().collect();
    for lane in &mut lanes {
        lane.items.sort_by_key(|item| item.start);
    }
    lanes
}

/// Maps of the buffers that moved most, in the order of their allocation.
fn maps(
    trace: &Trace,
    report: &MigrationReport,
    attribution: &Attribution,
    end: u64,
) -> (Vec<Map>, usize) {
    let rank = report.buffers.iter().enumerate();
    let rank: HashMap<u64, usize> = rank
        .filter_map(|(index, line)| Some((line.id?, index)))
        .collect();
    let mut chosen = residency::buffers(trace, attribution);
    chosen.retain(|&buffer| trace.buffers[buffer].managed);
    let left_out = chosen.len().saturating_sub(MAPS);
    chosen.sort_by_key(|&buffer| {
        let id = trace.buffers[buffer].id;
        rank.get(&id).copied().unwrap_or(usize::MAX)
    });
    chosen.truncate(MAPS);
    chosen.sort_unstable();
    let all = residency::of(trace, attribution, &chosen);
    let since = |time: u64| time.saturating_sub(trace.start);
    let maps = all.into_iter().map(|mut residency| {
        let buffer = &trace.buffers[residency.buffer];
        let born = buffer.allocated.map_or(0, since);
        for change in &mut residency.changes {
            change.time = since(change.time);
        }
        Map {
            name: buffer.name.clone(),
            bytes: buffer.bytes,
            // The buffer may be newer than the end of the trace.
            alive: (born, buffer.freed.map_or(end, since).max(born)),
            residency,
        }
    });
    (maps.collect(), left_out)
}
