//! The picture as compact JSON, which the page's script reads.

use super::data::{Map, Picture};
use super::item::{Colour, Lane};
use crate::residency::State;
use serde::Serialize;

#[derive(Serialize)]
struct Json<'a> {
    end: u64,
    texts: &'a [String],
    lanes: Vec<LaneJson<'a>>,
    maps: Vec<MapJson<'a>>,
    colours: [&'a str; 10],
}

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

/// Columns, with starts as differences: a tenth of the size of objects.
pub(super) fn json(picture: &Picture) -> String {
    let json = Json {
        end: picture.end,
        texts: &picture.texts,
        lanes: picture.lanes.iter().map(LaneJson::of).collect(),
        maps: picture.maps.iter().map(MapJson::of).collect(),
        colours: Colour::HEX,
    };
    // Only numbers and strings: this cannot fail.
    serde_json::to_string(&json).unwrap_or_default()
}

impl<'a> LaneJson<'a> {
    fn of(lane: &'a Lane) -> Self {
        let items = || lane.items.iter();
        Self {
            name: &lane.name,
            unit: lane.unit,
            starts: differences(items().map(|item| item.start)),
            lengths: items().map(|item| item.length).collect(),
            labels: items().map(|item| item.label).collect(),
            details: items().map(|item| item.detail).collect(),
            amounts: items().map(|item| item.amount).collect(),
            colours: items().map(|item| item.colour as u8).collect(),
        }
    }
}

impl<'a> MapJson<'a> {
    fn of(map: &'a Map) -> Self {
        let changes = || map.residency.changes.iter();
        Self {
            name: &map.name,
            bytes: map.bytes,
            block: map.residency.block_bytes,
            alive: map.alive,
            first: map.residency.first.iter().copied().map(code).collect(),
            times: differences(changes().map(|change| change.time)),
            blocks: changes().map(|change| change.block).collect(),
            states: changes().map(|change| code(change.state)).collect(),
        }
    }
}

fn differences(times: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut before = 0;
    times
        .map(|time| time - std::mem::replace(&mut before, time))
        .collect()
}

/// A state as a number: percent on the device, 101 for both, 102 for unknown.
fn code(state: State) -> u8 {
    match state {
        State::OnDevice(share) => share,
        State::Both => 101,
        State::Unknown => 102,
    }
}
