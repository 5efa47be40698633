//! Checks for values that no machine can have recorded. The other modules of this crate rely on these checks.
//!
//! Not refused: ids that refer to nothing (the entry may have been dropped), devices that are not in the list (it holds only
//! the devices that the program had opened), and records outside of the trace's time or of any buffer.

use super::{
    AccessedRange, Operation, OperationKind, Place, Record, RecordKind, Trace, TraceError,
};
use std::collections::{HashMap, HashSet};

/// Addresses have 57 bits on a host with five levels of page tables, and fewer on every other one.
const ADDRESS_END: u64 = 1 << 57;
const ADDRESSES: &str = "a range of addresses below 2^57, as processors have them";
/// The end of the times that 63 bits of nanoseconds since 1970 can represent. The sum of two times fits into a `u64`.
const TIME_END: u64 = i64::MAX as u64;
const TIMES: &str = "less than 2^63 ns, which end in the year 2262";
/// Drivers number devices from 0, and no host has space for so many.
const DEVICES_END: u32 = 1024;
const DEVICES: &str = "an ordinal below 1024";
/// Every JSON reader keeps numbers below this exactly, and no counter reaches it.
const STREAM_END: u64 = 1 << 53;
/// Limit for all records together: a million a second for 12 days. If each costs an hour, a `Duration` can still hold the
/// price.
const MOST_FAULTS: u64 = 1 << 40;
/// Limit for all accesses together, so that no sum over some of them overflows.
const MOST_BYTES: u64 = 1 << 63;
/// Limit for all records together, because readers go through the bytes in steps of 64 KiB: five minutes of a link of 55 GB/s.
const MOST_MOVED: u64 = 1 << 44;
/// Names of templates are long, and outputs repeat them.
const LONGEST_NAME: usize = 1 << 16;

/// The longest prefix of a name that a trace may hold: at most 64 KiB.
pub fn fitting_name(name: &str) -> &str {
    let mut end = name.len().min(LONGEST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// An entry of a list, as named in errors.
#[derive(Clone, Copy)]
struct Entry(&'static str, usize);

impl Entry {
    fn invalid(
        self,
        field: &'static str,
        value: impl ToString,
        allowed: &'static str,
    ) -> TraceError {
        TraceError::Invalid {
            entry: format!("{}[{}]", self.0, self.1),
            field,
            value: value.to_string(),
            allowed,
        }
    }

    fn require(
        self,
        holds: bool,
        field: &'static str,
        value: impl ToString,
        allowed: &'static str,
    ) -> Result<(), TraceError> {
        match holds {
            true => Ok(()),
            false => Err(self.invalid(field, value, allowed)),
        }
    }

    fn name(self, field: &'static str, name: &str) -> Result<(), TraceError> {
        let bytes = name.len();
        let value = format_args!("of {bytes} bytes");
        self.require(bytes <= LONGEST_NAME, field, value, "at most 64 KiB")
    }

    fn device(self, field: &'static str, ordinal: u32) -> Result<(), TraceError> {
        self.require(ordinal < DEVICES_END, field, ordinal, DEVICES)
    }

    fn place(self, field: &'static str, place: Place) -> Result<(), TraceError> {
        match place {
            Place::Host => Ok(()),
            Place::Device(ordinal) => self.device(field, ordinal),
        }
    }

    fn range(self, address: u64, bytes: u64) -> Result<(), TraceError> {
        let end = address.checked_add(bytes);
        self.require(address <= ADDRESS_END, "address", address, ADDRESSES)?;
        let inside = end.is_some_and(|end| end <= ADDRESS_END);
        self.require(inside, "bytes", bytes, ADDRESSES)
    }

    fn time(self, field: &'static str, time: u64) -> Result<(), TraceError> {
        self.require(time <= TIME_END, field, time, TIMES)
    }

    /// Checks an interval. Its length is added to the sum of the lengths before it.
    fn span(self, start: u64, end: u64, sum: &mut u64) -> Result<(), TraceError> {
        self.time("start", start)?;
        self.time("end", end)?;
        self.require(start <= end, "end", end, "no time before the start")?;
        let length = end - start;
        const LENGTHS: &str = "no time so late that all of the list together take 2^63 ns";
        self.add("end", end, sum, length, TIME_END, LENGTHS)
    }

    fn add(
        self,
        field: &'static str,
        value: u64,
        sum: &mut u64,
        by: u64,
        most: u64,
        allowed: &'static str,
    ) -> Result<(), TraceError> {
        let all = sum.checked_add(by).filter(|&all| all <= most);
        *sum = all.ok_or_else(|| self.invalid(field, value, allowed))?;
        Ok(())
    }

    fn moved(self, sum: &mut u64, bytes: u64) -> Result<(), TraceError> {
        const BYTES: &str = "so many that those of all records are at most 2^44";
        self.add("bytes", bytes, sum, bytes, MOST_MOVED, BYTES)
    }

    fn accessed(self, sum: &mut u64, bytes: u64) -> Result<(), TraceError> {
        const BYTES: &str = "so many that those of all accesses are at most 2^63";
        self.add("bytes", bytes, sum, bytes, MOST_BYTES, BYTES)
    }
}

fn entries<'a, T>(name: &'static str, list: &'a [T]) -> impl Iterator<Item = (Entry, &'a T)> {
    let list = list.iter().enumerate();
    list.map(move |(index, one)| (Entry(name, index), one))
}

impl Trace {
    /// Checks all values on which readers of a trace rely. [`from_json`](Self::from_json) calls it. A program that builds a
    /// trace itself must call it before it passes the trace on, because sums may overflow otherwise.
    ///
    /// - Nothing ends before it starts, and times are less than 2^63 ns; in each list, the sum of the lengths is also less than
    ///   2^63 ns.
    /// - Addresses, and the ends of ranges, are below 2^57; the ranges that an operation accesses lie inside its buffer.
    /// - The bytes of all records together are at most 2^44, the faults 2^40; the bytes of all accesses 2^63.
    /// - Ordinals of devices are below 1024, numbers of streams below 2^53, and names have at most 64 KiB.
    /// - Ids of buffers, ids of operations, and ordinals in the list of devices are unique.
    ///
    /// # Errors
    /// [`TraceError::Invalid`] with the first value that no machine can have recorded.
    pub fn check(&self) -> Result<(), TraceError> {
        self.check_itself()?;
        let buffers = self.check_buffers()?;
        let (mut time, mut bytes) = (0, 0);
        let mut known = HashSet::new();
        for (entry, operation) in entries("operations", &self.operations) {
            let new = known.insert(operation.id);
            entry.require(new, "id", operation.id, "another one for each operation")?;
            entry.device("device", operation.device)?;
            let stream = operation.stream.unwrap_or(0);
            entry.require(stream < STREAM_END, "stream", stream, "below 2^53")?;
            entry.span(operation.start, operation.end, &mut time)?;
            check_kind(entry, operation)?;
            for access in &operation.accesses {
                check_access(entry, access, &buffers)?;
                entry.accessed(&mut bytes, access.bytes)?;
            }
        }
        let mut time = 0;
        for (entry, run) in entries("kernels", &self.kernels) {
            entry.name("name", &run.name)?;
            entry.device("device", run.device)?;
            entry.span(run.start, run.end, &mut time)?;
        }
        let (mut time, mut bytes, mut faults) = (0, 0, 0);
        for (entry, record) in entries("records", &self.records) {
            entry.span(record.start, record.end, &mut time)?;
            check_record(entry, record, &mut bytes, &mut faults)?;
        }
        Ok(())
    }

    /// The trace's own fields, and its devices.
    fn check_itself(&self) -> Result<(), TraceError> {
        let itself = |field, value: u64, allowed| TraceError::Invalid {
            entry: "the trace".to_owned(),
            field,
            value: value.to_string(),
            allowed,
        };
        if self.start > TIME_END {
            return Err(itself("start", self.start, TIMES));
        }
        if self.end > TIME_END {
            return Err(itself("end", self.end, TIMES));
        }
        if self.end < self.start {
            return Err(itself("end", self.end, "no time before the start"));
        }
        let mut ordinals = HashSet::new();
        for (entry, device) in entries("devices", &self.devices) {
            entry.name("name", &device.name)?;
            entry.device("ordinal", device.ordinal)?;
            let new = ordinals.insert(device.ordinal);
            let allowed = "another one for each device";
            entry.require(new, "ordinal", device.ordinal, allowed)?;
        }
        Ok(())
    }

    /// The sizes of the buffers by their ids.
    fn check_buffers(&self) -> Result<HashMap<u64, u64>, TraceError> {
        let mut known = HashMap::with_capacity(self.buffers.len());
        for (entry, buffer) in entries("buffers", &self.buffers) {
            let new = known.insert(buffer.id, buffer.bytes).is_none();
            entry.require(new, "id", buffer.id, "another one for each buffer")?;
            entry.name("name", &buffer.name)?;
            entry.name("site", buffer.site.as_deref().unwrap_or_default())?;
            entry.range(buffer.address, buffer.bytes)?;
            entry.device("device", buffer.device)?;
            entry.time("allocated", buffer.allocated.unwrap_or(0))?;
            if let Some(freed) = buffer.freed {
                entry.time("freed", freed)?;
                let after = buffer.allocated <= Some(freed);
                entry.require(after, "freed", freed, "no time before it was allocated")?;
            }
        }
        Ok(known)
    }
}

fn check_kind(entry: Entry, operation: &Operation) -> Result<(), TraceError> {
    match &operation.kind {
        OperationKind::Launch { kernel } => entry.name("kernel", kernel),
        OperationKind::Prefetch { to, .. } => entry.place("to", *to),
        OperationKind::Advise { advice, place } => {
            entry.name("advice", advice)?;
            place.map_or(Ok(()), |place| entry.place("place", place))
        }
        OperationKind::Other { name } => entry.name("name", name),
        OperationKind::Host | OperationKind::Copy | OperationKind::Fill => Ok(()),
    }
}

fn check_access(
    entry: Entry,
    access: &AccessedRange,
    buffers: &HashMap<u64, u64>,
) -> Result<(), TraceError> {
    let size = buffers.get(&access.buffer).copied().unwrap_or(ADDRESS_END);
    let end = access.offset.checked_add(access.bytes);
    let inside = end.is_some_and(|end| end <= size);
    let value = format_args!("{} bytes from {} on", access.bytes, access.offset);
    entry.require(inside, "accesses", value, "a range inside the buffer")
}

fn check_record(
    entry: Entry,
    record: &Record,
    bytes: &mut u64,
    faults: &mut u64,
) -> Result<(), TraceError> {
    let size = match record.kind {
        RecordKind::Migration {
            from, to, bytes, ..
        } => {
            entry.place("from", from)?;
            entry.place("to", to)?;
            bytes
        }
        RecordKind::RemoteMap { by, at, bytes } => {
            entry.place("by", by)?;
            entry.place("at", at)?;
            bytes
        }
        RecordKind::Thrashing { bytes } => bytes,
        RecordKind::Throttling { place } => {
            entry.place("place", place)?;
            0
        }
        RecordKind::GpuFault {
            device,
            faults: number,
            ..
        } => {
            const FAULTS: &str = "so many that those of all records are at most 2^40";
            entry.device("device", device)?;
            entry.add("faults", number, faults, number, MOST_FAULTS, FAULTS)?;
            0
        }
        RecordKind::CpuFault { .. } => 0,
    };
    entry.range(record.address, size)?;
    entry.moved(bytes, size)
}
