//! The contents of the page: lanes of items, and blocks that change.

use super::item::{Lane, Texts};
use super::lanes::lanes;
use crate::residency::{self, Residency};
use crate::{Attribution, MigrationReport, Trace};
use std::collections::HashMap;

/// Buffers that get a residency map.
const MAPS: usize = 24;

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
