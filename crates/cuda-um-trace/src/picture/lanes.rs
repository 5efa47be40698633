//! Lanes in drawing order: work, then migrations, then faults.

use super::item::{Colour, Item, Lane, Texts};
use crate::report::line;
use crate::{
    Attribution, KernelRun, Operation, OperationKind, Place, Record, RecordKind, Trace, units,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Limit on the buffers of an operation that are named.
const NAMED: usize = 6;

/// The lanes, in drawing order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Host,
    Calls,
    CallsOfStream(u64),
    Kernels { device: u32, stream: u32 },
    MovesToDevice(u32),
    MovesToHost,
    MovesBetween { from: u32, to: u32 },
    DeviceFaults(u32),
    HostFaults,
    Thrashing,
}

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Host => "host access".to_owned(),
            Self::Calls => "calls".to_owned(),
            Self::CallsOfStream(stream) => format!("calls, stream {stream}"),
            Self::Kernels { device, stream } => format!("kernels, GPU {device} s{stream}"),
            Self::MovesToDevice(device) => format!("moves to GPU {device}"),
            Self::MovesToHost => "moves to host".to_owned(),
            Self::MovesBetween { from, to } => format!("GPU {from} to GPU {to}"),
            Self::DeviceFaults(device) => format!("faults, GPU {device}"),
            Self::HostFaults => "faults, host".to_owned(),
            Self::Thrashing => "thrashing …".to_owned(),
        }
    }

    /// The unit of amounts.
    fn unit(self) -> &'static str {
        match self {
            Self::Host | Self::Calls | Self::CallsOfStream(_) | Self::Kernels { .. } => "",
            Self::DeviceFaults(_) | Self::HostFaults => "faults",
            _ => "bytes",
        }
    }
}

pub(super) fn lanes(trace: &Trace, attribution: &Attribution, texts: &mut Texts) -> Vec<Lane> {
    let ids = trace.buffers.iter();
    let mut lanes = Lanes {
        trace,
        attribution,
        names: ids.map(|one| (one.id, units::short(&one.name))).collect(),
        texts,
        items: BTreeMap::new(),
    };
    trace.operations.iter().for_each(|one| lanes.operation(one));
    trace.kernels.iter().for_each(|run| lanes.kernel(run));
    for (index, record) in trace.records.iter().enumerate() {
        lanes.record(index, record);
    }
    let lane = |(kind, mut items): (Kind, Vec<Item>)| {
        items.sort_by_key(|item| item.start);
        Lane {
            name: kind.name(),
            unit: kind.unit(),
            items,
        }
    };
    lanes.items.into_iter().map(lane).collect()
}

/// The items so far.
struct Lanes<'a> {
    trace: &'a Trace,
    attribution: &'a Attribution,
    /// Names of buffers by id.
    names: HashMap<u64, Cow<'a, str>>,
    texts: &'a mut Texts,
    items: BTreeMap<Kind, Vec<Item>>,
}

/// The description of an item.
struct About<'a> {
    label: Cow<'a, str>,
    detail: String,
    amount: u64,
    colour: Colour,
}

impl Lanes<'_> {
    fn put(&mut self, kind: Kind, (start, end): (u64, u64), about: About<'_>) {
        let item = Item {
            start: start.saturating_sub(self.trace.start),
            length: end.saturating_sub(start),
            label: self.texts.index(about.label.into_owned()),
            detail: self.texts.index(about.detail),
            amount: about.amount,
            colour: about.colour,
        };
        self.items.entry(kind).or_default().push(item);
    }

    fn operation(&mut self, operation: &Operation) {
        let over = operation.accesses.iter();
        let over = over.map(|one| self.names.get(&one.buffer).map_or("?", |name| name));
        let mut over: Vec<&str> = over.take(NAMED).collect();
        if operation.accesses.len() > over.len() {
            over.push("…");
        }
        let mut detail = over.join(", ");
        if let OperationKind::Prefetch { left_out: true, .. } = operation.kind {
            detail += " (elided: data in place)";
        }
        let (kind, colour) = match (&operation.kind, operation.stream) {
            (OperationKind::Host, _) => (Kind::Host, Colour::Host),
            (_, None) => (Kind::Calls, Colour::Call),
            (_, Some(stream)) => (Kind::CallsOfStream(stream), Colour::Call),
        };
        let name = line::operation_name(&operation.kind);
        let about = About {
            label: units::short(&name),
            detail,
            amount: 0,
            colour,
        };
        self.put(kind, (operation.start, operation.end), about);
    }

    fn kernel(&mut self, run: &KernelRun) {
        let kind = Kind::Kernels {
            device: run.device,
            stream: run.stream,
        };
        let about = About {
            label: units::short(&run.name),
            detail: String::new(),
            amount: 0,
            colour: Colour::Kernel,
        };
        self.put(kind, (run.start, run.end), about);
    }

    fn record(&mut self, index: usize, record: &Record) {
        let buffer = self.attribution.pieces(index)[0].buffer;
        let buffer = buffer.map_or(line::UNKNOWN, |buffer| &self.trace.buffers[buffer].name);
        let during = line::name(self.trace, self.attribution.explanation(index));
        let detail = format!("{} · {}", units::short(buffer), units::short(&during));
        let (kind, label, amount, colour) = match record.kind {
            RecordKind::Migration {
                from,
                to,
                bytes,
                cause,
            } => {
                let kind = match (from, to) {
                    (Place::Device(from), Place::Device(to)) => Kind::MovesBetween { from, to },
                    (_, Place::Device(to)) => Kind::MovesToDevice(to),
                    (_, Place::Host) => Kind::MovesToHost,
                };
                (kind, line::cause(cause).into(), bytes, Colour::of(cause))
            }
            RecordKind::GpuFault { device, faults, .. } => {
                let kind = Kind::DeviceFaults(device);
                (kind, Cow::from("GPU faults"), faults, Colour::GpuFault)
            }
            RecordKind::CpuFault { .. } => {
                (Kind::HostFaults, "CPU fault".into(), 1, Colour::CpuFault)
            }
            RecordKind::Thrashing { bytes } => {
                (Kind::Thrashing, "thrashing".into(), bytes, Colour::Fault)
            }
            RecordKind::Throttling { place } => {
                let label = format!("throttled: {}", place.words());
                (Kind::Thrashing, label.into(), 0, Colour::Eviction)
            }
            RecordKind::RemoteMap { by, bytes, .. } => {
                let label = format!("mapped for {}", by.words());
                (Kind::Thrashing, label.into(), bytes, Colour::Other)
            }
        };
        let about = About {
            label,
            detail,
            amount,
            colour,
        };
        self.put(kind, (record.start, record.end), about);
    }
}
