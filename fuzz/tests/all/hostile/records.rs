//! Entries of traces that are large or many.

use cuda_um_trace::{
    AccessedRange, Buffer, Cause, FaultAccess, KernelRun, Operation, OperationKind, Place, Record,
    RecordKind, Trace,
};

pub const DEVICE: Place = Place::Device(0);
pub const TIB: u64 = 1 << 40;
pub const CELL: u64 = 64 << 10;
/// The longest name that a trace may have.
pub const LONGEST_NAME: usize = 1 << 16;

pub fn buffer(id: u64, address: u64, bytes: u64) -> Buffer {
    Buffer {
        id,
        name: format!("b{id}"),
        site: None,
        address,
        bytes,
        element_bytes: 1,
        managed: true,
        slab: None,
        device: 0,
        allocated: None,
        freed: None,
    }
}

/// One operation at a time, over the first bytes of these buffers.
pub fn operation(id: u64, kind: OperationKind, time: u64, over: &[u64]) -> Operation {
    let accesses = over.iter().map(|&buffer| access(buffer, 0, 1));
    Operation {
        id,
        kind,
        stream: Some(1),
        device: 0,
        start: time,
        end: time,
        accesses: accesses.collect(),
    }
}

pub fn access(buffer: u64, offset: u64, bytes: u64) -> AccessedRange {
    AccessedRange {
        buffer,
        offset,
        bytes,
        write: false,
    }
}

pub fn launch(id: u64, time: u64, over: &[u64]) -> Operation {
    let kernel = "k".to_owned();
    operation(id, OperationKind::Launch { kernel }, time, over)
}

pub fn prefetch(id: u64, time: u64, over: &[u64]) -> Operation {
    let (to, left_out) = (DEVICE, false);
    operation(id, OperationKind::Prefetch { to, left_out }, time, over)
}

pub fn kernel(operation: u64, start: u64, end: u64) -> KernelRun {
    KernelRun {
        name: "k".to_owned(),
        device: 0,
        stream: 0,
        start,
        end,
        operation: Some(operation),
    }
}

pub fn migration(address: u64, bytes: u64, to: Place, cause: Cause, time: u64) -> Record {
    let from = if to == Place::Host {
        DEVICE
    } else {
        Place::Host
    };
    let kind = RecordKind::Migration {
        from,
        to,
        bytes,
        cause,
    };
    Record {
        kind,
        address,
        start: time,
        end: time,
    }
}

pub fn moved(address: u64, bytes: u64, to: Place, time: u64) -> Record {
    migration(address, bytes, to, Cause::Coherence, time)
}

pub fn cpu_fault(address: u64, time: u64) -> Record {
    Record {
        kind: RecordKind::CpuFault { instruction: 0 },
        address,
        start: time,
        end: time,
    }
}

pub fn gpu_fault(address: u64, time: u64) -> Record {
    let (device, faults, access) = (0, 1, FaultAccess::Read);
    Record {
        kind: RecordKind::GpuFault {
            device,
            faults,
            access,
        },
        address,
        start: time,
        end: time,
    }
}

pub fn trace() -> Trace {
    Trace {
        format: Trace::FORMAT,
        end: 1 << 40,
        ..Trace::default()
    }
}
