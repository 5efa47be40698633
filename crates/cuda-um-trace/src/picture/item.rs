//! Items on lanes.

use crate::Cause;
use std::collections::HashMap;

/// Colours by kind of item: an index that the page and the SVG share.
#[derive(Clone, Copy, PartialEq, Eq)]
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

#[derive(Default)]
pub(super) struct Texts {
    pub(super) all: Vec<String>,
    known: HashMap<String, usize>,
}

impl Texts {
    pub(super) fn index(&mut self, text: String) -> usize {
        *self.known.entry(text).or_insert_with_key(|text| {
            self.all.push(text.clone());
            self.all.len() - 1
        })
    }
}
