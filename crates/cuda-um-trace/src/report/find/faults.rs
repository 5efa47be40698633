//! Faults that a prefetch would have avoided.

use super::price;
use crate::report::context::{Context, Part};
use crate::report::{Finding, FindingKind, Saving};
use crate::{Explanation, OperationKind, Place, RecordKind, units};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

#[derive(Default)]
struct Sum {
    device: u32,
    runs: u64,
    faults: u64,
    bytes: u64,
    was: Duration,
}

/// Kernels, fills and copies that faulted: one finding for each name.
pub(super) fn of_devices(context: &Context, buffer: usize) -> Vec<Finding> {
    let mut by_run: BTreeMap<Explanation, Sum> = BTreeMap::new();
    for part in &context.parts[buffer] {
        if !context.is_free(part) {
            continue;
        }
        let (device, faults) = match context.record(part).kind {
            RecordKind::GpuFault { device, faults, .. } => (device, Some(faults)),
            RecordKind::Migration {
                to: Place::Device(device),
                cause,
                ..
            } if cause.by_fault() => (device, None),
            _ => continue,
        };
        let sum = by_run.entry(context.explanation(part)).or_default();
        sum.runs = 1;
        sum.device = device;
        sum.faults += faults.unwrap_or(0);
        sum.bytes += part.piece.bytes;
        sum.was += context.fault_price(part, part.piece.bytes);
        context.claim(part);
    }
    let mut by_name: BTreeMap<(During, u32), Sum> = BTreeMap::new();
    for (explanation, run) in by_run {
        let sum = by_name
            .entry((during(context, explanation), run.device))
            .or_default();
        sum.runs += run.runs;
        sum.faults += run.faults;
        sum.bytes += run.bytes;
        sum.was += run.was;
    }
    let model = context.model;
    let bytes_of = &context.trace.buffers[buffer].bytes;
    let found = by_name.into_iter().map(|((during, device), sum)| {
        let runs = sum.runs;
        let would_be = match sum.bytes {
            0 => price::populate(model, runs, *bytes_of),
            bytes => price::to_device(model, runs, bytes),
        };
        let saves = Saving {
            bytes: 0,
            faults: sum.faults,
            time: sum.was.saturating_sub(would_be),
        };
        let kind = FindingKind::DeviceFaults {
            during: during.text(),
            device,
            runs,
            faults: sum.faults,
            bytes: sum.bytes,
        };
        context.finding(buffer, kind, saves)
    });
    found.collect()
}

/// Host accesses that moved memory back page by page. Faults without a migration are first accesses; a prefetch does not make
/// them cheaper.
pub(super) fn of_the_host(context: &Context, buffer: usize) -> Option<Finding> {
    let brought = |part: &&Part| {
        matches!(
            context.record(part).kind,
            RecordKind::Migration { to: Place::Host, cause, .. } if cause.by_fault()
        )
    };
    let free = || {
        let parts = context.parts[buffer].iter();
        parts.filter(|part| context.is_free(part))
    };
    let accesses: HashSet<Explanation> = free()
        .filter(brought)
        .map(|part| context.explanation(part))
        .collect();
    if accesses.is_empty() {
        return None;
    }
    let bytes = free().filter(brought).map(|part| part.piece.bytes).sum();
    let is_cpu_fault =
        |part: &&Part| matches!(context.record(part).kind, RecordKind::CpuFault { .. });
    let faulted = free()
        .filter(is_cpu_fault)
        .filter(|part| accesses.contains(&context.explanation(part)));
    let faults = faulted.clone().count() as u64;
    let claimed: Vec<Part> = free().filter(brought).chain(faulted).copied().collect();
    claimed.iter().for_each(|part| context.claim(part));

    let times = accesses.len() as u64;
    let was: Duration = claimed
        .iter()
        .map(|part| context.fault_price(part, part.piece.bytes))
        .sum();
    let saves = Saving {
        bytes: 0,
        faults,
        time: was.saturating_sub(price::to_host(context.model, times, bytes)),
    };
    let writing: HashSet<usize> = context.uses[buffer]
        .iter()
        .filter(|one| one.write)
        .map(|one| one.operation)
        .collect();
    let writes = accesses.iter().all(|&explanation| {
        let operation = context.attribution.operation(explanation);
        operation.is_some_and(|operation| writing.contains(&operation))
    });
    let kind = FindingKind::HostFaults {
        times,
        faults,
        bytes,
        writes,
    };
    Some(context.finding(buffer, kind, saves))
}

/// The work that was running.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum During<'a> {
    Kernel(&'a str),
    Call(&'static str),
}

impl During<'_> {
    fn text(self) -> String {
        match self {
            Self::Kernel(name) => format!("`{}`", units::short(name)),
            Self::Call(words) => words.to_owned(),
        }
    }
}

fn during<'a>(context: &Context<'a>, explanation: Explanation) -> During<'a> {
    match explanation {
        Explanation::Run(kernel) => During::Kernel(&context.trace.kernels[kernel].name),
        _ => match context.operation_kind(explanation) {
            Some(OperationKind::Launch { kernel }) => During::Kernel(kernel),
            Some(OperationKind::Copy) => During::Call("a copy"),
            Some(OperationKind::Fill) => During::Call("a fill"),
            _ => During::Call("a kernel that the trace does not know"),
        },
    }
}
