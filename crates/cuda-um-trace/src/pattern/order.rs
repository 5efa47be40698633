//! The order in which addresses were accessed.

use crate::report::Context;
use crate::{Explanation, RecordKind, units};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// The order in which the addresses of a buffer were accessed, as far as faults show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// Too few faults.
    Unknown,
    /// Ascending, each address next to the one before, or close to it.
    Sequential,
    /// Ascending, in steps that skip memory.
    Strided {
        /// The step.
        stride_bytes: u64,
    },
    /// No order.
    Random,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("not known"),
            Self::Sequential => f.write_str("sequential"),
            Self::Strided { stride_bytes } => {
                write!(f, "strided by {}", units::bytes(*stride_bytes))
            }
            Self::Random => f.write_str("random"),
        }
    }
}

/// Fewer steps are not enough for a result.
const FEWEST: usize = 4;
/// Reach of a fault: accesses closer than this are adjacent.
const REACH: u64 = 64 * 1024;

pub(super) fn of(context: &Context, buffer: usize) -> Order {
    let mut last: HashMap<Explanation, (u64, u64)> = HashMap::new();
    let (mut steps, mut upwards, mut near) = (0_usize, 0_usize, 0_usize);
    let mut strides: HashMap<u64, usize> = HashMap::new();
    // Migrations follow their fault and show how far it reached.
    for part in &context.parts[buffer] {
        let run = context.explanation(part);
        let address = part.piece.address;
        match context.record(part).kind {
            RecordKind::Migration { cause, .. } => {
                if let Some(entry) = last.get_mut(&run)
                    && cause.by_fault()
                {
                    entry.1 = entry.1.max(address.saturating_add(part.piece.bytes));
                }
            }
            RecordKind::CpuFault { .. } | RecordKind::GpuFault { .. } => {
                let Some((before, reached)) = last.insert(run, (address, address)) else {
                    continue;
                };
                if address == before {
                    continue;
                }
                steps += 1;
                if address > before {
                    upwards += 1;
                    *strides.entry(address - before).or_default() += 1;
                    near += usize::from(address <= reached.max(before).saturating_add(REACH));
                }
            }
            _ => {}
        }
    }
    if steps < FEWEST {
        return Order::Unknown;
    }
    let most = |count: usize| count * 10 >= steps * 8;
    if most(near) {
        return Order::Sequential;
    }
    let stride = strides
        .into_iter()
        .max_by_key(|&(stride, count)| (count, stride));
    match stride {
        Some((stride_bytes, count)) if most(count) => Order::Strided { stride_bytes },
        // Many processors run at once: the trend counts if it is clear.
        _ if most(upwards) => Order::Sequential,
        _ => Order::Random,
    }
}
