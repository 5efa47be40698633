//! Hand-made traces: calls that advance a clock and add the records that a driver would make.
#![allow(dead_code, reason = "each test uses only a part of it")]

use cuda_um_cost::CostModel;
use cuda_um_trace::{
    AccessedRange, BLOCK_BYTES, Buffer, Cause, DeviceInfo, FaultAccess, KernelRun, Operation,
    OperationKind, Place, Record, RecordKind, Source, Trace,
};

/// A separate model, so that a new measurement of the real models changes no test.
pub fn model() -> CostModel {
    let mut model = CostModel::h200();
    model.source = "of the tests".into();
    for (key, value) in [
        ("gpu_fault_group_us", 30.0),
        ("gpu_fault_us", 9.0),
        ("cpu_fault_us", 17.0),
        ("fault_bytes_per_s", 25e9),
        ("prefetch_us", 12.5),
        ("prefetch_resident_us", 2.0),
        ("prefetch_block_us", 1.0),
        ("prefetch_to_device_bytes_per_s", 50e9),
        ("prefetch_to_host_bytes_per_s", 25e9),
        ("device_populate_bytes_per_s", 100e9),
        ("remote_bytes_per_s", 40e9),
    ] {
        model.set(key, value).unwrap();
    }
    model
}

pub const DEVICE: Place = Place::Device(0);
/// The bytes that one fault moves.
pub const FAULT_BYTES: u64 = 64 * 1024;

pub struct Builder {
    pub trace: Trace,
    pub now: u64,
    next_address: u64,
}

impl Builder {
    pub fn new() -> Self {
        let start = 1_700_000_000_000_000_000;
        Self {
            trace: Trace {
                format: Trace::FORMAT,
                source: Source {
                    name: "test".into(),
                    cuda: "13.0".into(),
                },
                devices: vec![DeviceInfo {
                    ordinal: 0,
                    name: "NVIDIA H200".into(),
                    memory_bytes: 141 << 30,
                    concurrent_managed_access: true,
                }],
                start,
                ..Trace::default()
            },
            now: start + 1_000,
            next_address: 0x7f00_0000_0000,
        }
    }

    pub fn finish(mut self) -> Trace {
        self.trace.end = self.now + 1_000;
        self.trace
    }

    /// Lets time pass.
    pub fn wait(&mut self, ns: u64) {
        self.now += ns;
    }

    /// A managed buffer that shares no block with another buffer.
    pub fn buffer(&mut self, name: &str, bytes: u64) -> u64 {
        let address = self.next_address;
        self.next_address += bytes.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES;
        self.buffer_at(name, address, bytes, None)
    }

    pub fn buffer_at(&mut self, name: &str, address: u64, bytes: u64, slab: Option<u64>) -> u64 {
        let id = self.trace.buffers.len() as u64 + 100;
        self.trace.buffers.push(Buffer {
            id,
            name: name.into(),
            site: Some(format!("src/main.rs:{id}")),
            address,
            bytes,
            element_bytes: 4,
            managed: true,
            slab,
            device: 0,
            allocated: Some(self.now),
            freed: None,
        });
        id
    }

    pub fn free(&mut self, id: u64) {
        let now = self.now;
        let buffer = self.trace.buffers.iter_mut().find(|buffer| buffer.id == id);
        buffer.unwrap().freed = Some(now);
    }

    pub fn get(&self, id: u64) -> &Buffer {
        let mut buffers = self.trace.buffers.iter();
        buffers.find(|buffer| buffer.id == id).unwrap()
    }

    /// Adds an operation over whole buffers that takes a microsecond, and returns its id.
    pub fn operation(&mut self, kind: OperationKind, over: &[(u64, bool)]) -> u64 {
        let id = self.trace.operations.len() as u64;
        let accesses = over.iter().map(|&(buffer, write)| AccessedRange {
            buffer,
            offset: 0,
            bytes: self.get(buffer).bytes,
            write,
        });
        let accesses = accesses.collect();
        let on_host = kind == OperationKind::Host;
        self.trace.operations.push(Operation {
            id,
            kind,
            stream: (!on_host).then_some(1),
            device: 0,
            start: self.now,
            end: self.now + 1_000,
            accesses,
        });
        self.now += 1_000;
        id
    }

    pub fn record(&mut self, kind: RecordKind, address: u64, ns: u64) {
        self.trace.records.push(Record {
            kind,
            address,
            start: self.now,
            end: self.now + ns,
        });
        self.now += ns.max(1);
    }

    pub fn migration(&mut self, address: u64, bytes: u64, to: Place, cause: Cause) {
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
        self.record(kind, address, bytes / 50);
    }

    pub fn move_all(&mut self, id: u64, step: u64, to: Place, cause: Cause) {
        let (address, bytes) = (self.get(id).address, self.get(id).bytes);
        for offset in (0..bytes).step_by(step as usize) {
            self.migration(address + offset, step.min(bytes - offset), to, cause);
        }
    }

    /// A prefetch that moves the whole buffer, block by block.
    pub fn prefetch(&mut self, id: u64, to: Place) {
        self.prefetch_of_nothing(id, to);
        self.move_all(id, BLOCK_BYTES, to, Cause::User);
    }

    /// A prefetch that moves nothing, because all data are in place.
    pub fn prefetch_of_nothing(&mut self, id: u64, to: Place) {
        let kind = OperationKind::Prefetch {
            to,
            left_out: false,
        };
        self.operation(kind, &[(id, false)]);
    }

    pub fn advise(&mut self, id: u64, advice: &str) {
        let kind = OperationKind::Advise {
            advice: advice.into(),
            place: None,
        };
        self.operation(kind, &[(id, false)]);
    }

    /// A kernel on resident memory.
    pub fn launch(&mut self, kernel: &str, over: &[(u64, bool)]) {
        self.launch_with(kernel, over, |builder| builder.wait(10_000));
    }

    /// A kernel that moves all its memory by faults, in parts of 64 KiB.
    pub fn launch_faulting(&mut self, kernel: &str, over: &[(u64, bool)]) {
        self.launch_with(kernel, over, |builder| {
            for &(id, _) in over {
                builder.fault_in(id);
            }
        });
    }

    pub fn launch_with(&mut self, kernel: &str, over: &[(u64, bool)], run: impl FnOnce(&mut Self)) {
        let kind = OperationKind::Launch {
            kernel: kernel.into(),
        };
        let operation = self.operation(kind, over);
        self.wait(2_000);
        let start = self.now;
        run(self);
        self.wait(1_000);
        self.trace.kernels.push(KernelRun {
            name: kernel.into(),
            device: 0,
            stream: 7,
            start,
            end: self.now,
            operation: Some(operation),
        });
        self.wait(1_000);
    }

    pub fn gpu_fault(&mut self, address: u64, faults: u64) {
        let kind = RecordKind::GpuFault {
            device: 0,
            faults,
            access: FaultAccess::Read,
        };
        self.record(kind, address, 20_000);
    }

    pub fn fault_in(&mut self, id: u64) {
        let (address, bytes) = (self.get(id).address, self.get(id).bytes);
        for offset in (0..bytes).step_by(FAULT_BYTES as usize) {
            self.gpu_fault(address + offset, 3);
            let moved = FAULT_BYTES.min(bytes - offset);
            self.migration(address + offset, moved, DEVICE, Cause::Coherence);
        }
    }

    /// The host accesses memory that is on the host.
    pub fn host(&mut self, id: u64, write: bool) {
        self.host_with(id, write, |builder| builder.wait(5_000));
    }

    /// The host accesses memory that is on the device, in parts of 64 KiB.
    pub fn host_faulting(&mut self, id: u64, write: bool) {
        let (address, bytes) = (self.get(id).address, self.get(id).bytes);
        self.host_with(id, write, |builder| {
            for offset in (0..bytes).step_by(FAULT_BYTES as usize) {
                builder.cpu_fault(address + offset);
                builder.wait(15_000);
                let moved = FAULT_BYTES.min(bytes - offset);
                builder.migration(address + offset, moved, Place::Host, Cause::Coherence);
            }
        });
    }

    pub fn cpu_fault(&mut self, address: u64) {
        self.record(RecordKind::CpuFault { instruction: 0 }, address, 0);
    }

    pub fn host_with(&mut self, id: u64, write: bool, touch: impl FnOnce(&mut Self)) {
        let operation = self.operation(OperationKind::Host, &[(id, write)]);
        touch(self);
        self.wait(1_000);
        self.trace.operations[operation as usize].end = self.now;
        self.wait(1_000);
    }
}
