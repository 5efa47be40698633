//! Functions of the driver that tell about an address.

use super::guard::{Outcome, entry_points};
use super::pointer::{Array, Out};
use crate::engine::{Code, Kind, State, primary_context};

/// The granularity of mappings.
const MAPPING: u64 = 2 << 20;
/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`.
const SYNC_MEMOPS: u32 = 6;

/// The value of an attribute, of the size that CUDA documents for it.
enum Value {
    Word(u64),
    Number(u32),
    /// `CUDA_POINTER_ATTRIBUTE_P2P_TOKENS`, which no device of today has.
    Tokens,
}

impl Value {
    fn put(self, to: Out<u64>) -> Outcome {
        match self {
            Value::Word(word) => to.put(word),
            Value::Number(number) => to.cast().put(number),
            Value::Tokens => to.cast().put([0u64; 2]),
        }
    }

    /// The same attribute of an address of which CUDA knows nothing.
    fn empty(attribute: u32) -> Result<Value, Code> {
        Ok(match attribute {
            1 | 3 | 4 | 7 | 11 | 12 | 14 | 17..=20 => Value::Word(0),
            2 | 6 | 8 | 10 | 13 | 15 | 16 | 21 => Value::Number(0),
            // `cudaInvalidDeviceId`.
            9 => Value::Number(-2i32 as u32),
            5 => Value::Tokens,
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

/// An attribute of an address, as an H200 answers (driver 580, CUDA 13.0).
fn attribute(state: &State, attribute: u32, pointer: usize) -> Result<Value, Code> {
    let range = state.memory.extent(pointer).ok_or(Code::INVALID_VALUE)?;
    let allocation = state.memory.holding(pointer);
    let kind = allocation.map(|allocation| allocation.kind);
    let pool = allocation.and_then(|allocation| allocation.pool);
    let device = state.memory.owner(pointer);
    let (is_managed, is_device) = (
        kind == Some(Kind::Managed),
        matches!(kind, Some(Kind::Device(_))),
    );
    let flag = |flag| Value::Number(u32::from(flag));
    Ok(match attribute {
        // Memory of a pool belongs to no context.
        1 => Value::Word(if pool.is_some() {
            0
        } else {
            primary_context(device) as u64
        }),
        // `CU_MEMORYTYPE_DEVICE` or `CU_MEMORYTYPE_HOST`.
        2 => Value::Number(if is_managed || is_device { 2 } else { 1 }),
        4 if is_device => return Err(Code::INVALID_VALUE),
        3 | 4 => Value::Word(pointer as u64),
        5 if is_managed || is_device => Value::Tokens,
        SYNC_MEMOPS | 8 => flag(is_managed),
        7 | 20 => Value::Word(allocation.map_or(range.start, |allocation| allocation.id) as u64),
        9 => Value::Number(device as u32),
        10 | 15 | 21 => flag(is_device && pool.is_none()),
        11 => Value::Word(range.start as u64),
        12 => Value::Word(range.len() as u64),
        13 => flag(true),
        14 => Value::Word(0),
        // `CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE`.
        16 => Value::Number(3),
        17 => Value::Word(pool.unwrap_or(0) as u64),
        18 => Value::Word((range.len() as u64).next_multiple_of(MAPPING)),
        19 => Value::Word(range.start as u64),
        _ => return Err(Code::INVALID_VALUE),
    })
}

entry_points! { Driver;
    fn cuPointerGetAttribute(core, value: Out<u64>, which: u32, pointer: u64) {
        attribute(&core.state.lock(), which, pointer as usize)?.put(value)
    }

    // An address that is not CUDA's is no error here.
    fn cuPointerGetAttributes(core, count: u32, which: Array<u32>, values: Array<Out<u64>>, pointer: u64) {
        let state = core.state.lock();
        let (which, values) = (which.to_vec(count as usize)?, values.to_vec(count as usize)?);
        which.into_iter().zip(values).try_for_each(|(which, value)| {
            attribute(&state, which, pointer as usize).or_else(|_| Value::empty(which))?.put(value)
        })
    }

    fn cuPointerSetAttribute(core, value: Out<u32>, which: u32, pointer: u64) {
        core.state.lock().memory.extent(pointer as usize).ok_or(Code::INVALID_VALUE)?;
        // Copies of every memory are synchronous as the flag asks.
        if which == SYNC_MEMOPS { value.get().map(drop) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuMemGetAddressRange_v2(core, base: Out<usize>, bytes: Out<usize>, pointer: u64) {
        let range = core.state.lock().memory.extent(pointer as usize).ok_or(Code::SYMBOL_NOT_FOUND)?;
        if !base.is_null() {
            base.put(range.start)?;
        }
        if bytes.is_null() { Ok(()) } else { bytes.put(range.len()) }
    }
}
