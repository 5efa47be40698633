//! Trace events in the format of ui.perfetto.dev and chrome://tracing.

use crate::report::line;
use crate::{
    Attribution, KernelRun, Operation, OperationKind, Place, Record, RecordKind, Trace, units,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Processes of the file: Perfetto groups tracks by process.
const HOST: u32 = 1;
const MEMORY: u32 = 2;
/// The process of the first device.
const DEVICES: u32 = 10;

/// A trace in the trace event format: operations, kernels, migrations and faults as tracks, bytes on devices as a counter.
///
/// Times are microseconds since the trace began.
pub fn perfetto(trace: &Trace) -> String {
    let attribution = Attribution::of(trace);
    let mut events = Events {
        trace,
        processes: BTreeMap::new(),
        tracks: BTreeMap::new(),
        events: String::new(),
    };
    for operation in &trace.operations {
        events.operation(operation);
    }
    for run in &trace.kernels {
        events.kernel(run);
    }
    for (index, record) in trace.records.iter().enumerate() {
        events.record(&attribution, index, record);
    }
    events.counters();
    let events = events.finish();
    format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[{events}]}}")
}

struct Events<'a> {
    trace: &'a Trace,
    processes: BTreeMap<u32, String>,
    tracks: BTreeMap<(u32, u64), String>,
    /// JSON, separated by commas: JSON values would need several times the memory.
    events: String,
}

/// A row of the picture.
struct Track {
    process: u32,
    process_name: String,
    number: u64,
    name: String,
}

fn push(events: &mut String, event: Value) {
    let comma = if events.is_empty() { "" } else { "," };
    // Writing to a string cannot fail.
    let _ = write!(events, "{comma}{event}");
}

impl Events<'_> {
    fn operation(&mut self, operation: &Operation) {
        let (number, name) = match (&operation.kind, operation.stream) {
            (OperationKind::Host, _) => (1, "host access".to_owned()),
            (_, None) => (2, "calls".to_owned()),
            (_, Some(stream)) => (stream.saturating_add(3), format!("calls, stream {stream}")),
        };
        let track = Track {
            process: HOST,
            process_name: "host".to_owned(),
            number,
            name,
        };
        let name = line::operation_name(&operation.kind);
        let buffers = operation.accesses.iter().map(|access| access.buffer);
        let arguments = json!({ "buffers": buffers.collect::<Vec<u64>>() });
        let times = (operation.start, operation.end);
        self.slice(track, &units::short(&name), times, arguments);
    }

    fn kernel(&mut self, run: &KernelRun) {
        let track = Track {
            process: DEVICES + run.device,
            process_name: format!("GPU {}", run.device),
            number: run.stream.into(),
            name: format!("kernels, stream {}", run.stream),
        };
        let name = units::short(&run.name);
        self.slice(track, &name, (run.start, run.end), json!({}));
    }

    fn record(&mut self, attribution: &Attribution, index: usize, record: &Record) {
        let buffer = attribution.pieces(index)[0].buffer;
        let buffer = buffer.map_or(line::UNKNOWN, |buffer| &self.trace.buffers[buffer].name);
        let during = line::name(self.trace, attribution.explanation(index));
        let mut arguments = json!({
            "buffer": units::short(buffer),
            "during": units::short(&during),
            "address": format!("{:#x}", record.address),
        });
        let (number, name, what) = match record.kind {
            RecordKind::Migration {
                from,
                to,
                bytes,
                cause,
            } => {
                arguments["bytes"] = bytes.into();
                let name = format!("{} to {}", place(from), place(to));
                let track = place_number(from) * 100 + place_number(to);
                (1_000 + track, name, line::cause(cause))
            }
            RecordKind::GpuFault { device, faults, .. } => {
                arguments["faults"] = faults.into();
                let name = format!("faults, GPU {device}");
                (100 + u64::from(device), name, "GPU faults")
            }
            RecordKind::CpuFault { .. } => (50, "faults, host".to_owned(), "CPU fault"),
            RecordKind::Thrashing { .. } => (51, "thrashing".to_owned(), "thrashing"),
            RecordKind::Throttling { .. } => (51, "thrashing".to_owned(), "throttled"),
            RecordKind::RemoteMap { .. } => (52, "remote maps".to_owned(), "remote map"),
        };
        let track = Track {
            process: MEMORY,
            process_name: "unified memory".to_owned(),
            number,
            name,
        };
        self.slice(track, what, (record.start, record.end), arguments);
    }

    fn slice(&mut self, track: Track, name: &str, (start, end): (u64, u64), arguments: Value) {
        let event = json!({
            "ph": "X", "name": name, "pid": track.process, "tid": track.number,
            "ts": since(self.trace, start), "dur": end.saturating_sub(start) as f64 / 1e3, "args": arguments,
        });
        push(&mut self.events, event);
        let processes = &mut self.processes;
        processes.entry(track.process).or_insert(track.process_name);
        let tracks = &mut self.tracks;
        tracks
            .entry((track.process, track.number))
            .or_insert(track.name);
    }

    /// Bytes that migrations left on each device, relative to the begin of the trace.
    fn counters(&mut self) {
        let mut moves: Vec<(u64, u32, i128)> = Vec::new();
        for record in &self.trace.records {
            if let RecordKind::Migration {
                from, to, bytes, ..
            } = record.kind
            {
                let by = i128::from(bytes);
                for (at, by) in [(from, -by), (to, by)] {
                    if let Place::Device(device) = at {
                        moves.push((record.end, device, by));
                    }
                }
            }
        }
        moves.sort_by_key(|&(time, ..)| time);
        let mut there: BTreeMap<u32, i128> = BTreeMap::new();
        for (time, device, by) in moves {
            let now = there.entry(device).or_default();
            *now += by;
            let mut value = Map::new();
            value.insert(format!("bytes moved to GPU {device}"), json!(*now as f64));
            let event = json!({
                "ph": "C", "name": format!("GPU {device}: bytes moved there, less those moved away"), "pid": MEMORY,
                "ts": since(self.trace, time), "args": value,
            });
            push(&mut self.events, event);
        }
    }

    /// All events; names of processes and tracks come first.
    fn finish(self) -> String {
        let mut all = String::new();
        for (process, name) in &self.processes {
            push(
                &mut all,
                json!({ "ph": "M", "name": "process_name", "pid": process, "args": { "name": name } }),
            );
        }
        for ((process, track), name) in &self.tracks {
            push(
                &mut all,
                json!({ "ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": { "name": name } }),
            );
        }
        if !self.events.is_empty() {
            all += ",";
            all += &self.events;
        }
        all
    }
}

fn since(trace: &Trace, time: u64) -> f64 {
    time.saturating_sub(trace.start) as f64 / 1e3
}

fn place(place: Place) -> String {
    match place {
        Place::Host => "host".to_owned(),
        Place::Device(device) => format!("GPU {device}"),
    }
}

fn place_number(place: Place) -> u64 {
    match place {
        Place::Host => 0,
        Place::Device(device) => u64::from(device) + 1,
    }
}
