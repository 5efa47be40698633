//! The sums of the simulator's records equal its counters, for any work.

use crate::alone::{alone, sums};
use cuda_um::{
    Advice, Device, Error, Location, Oversubscription, Stream, UnifiedBuffer, UnifiedOptions,
    managed::HintOutcome,
};
use cuda_um_sim::{Builder, CudaVersion, Gpu, Sim};
use cuda_um_testkit::{Add, Checked, on, open};
use um_profile::MigrationCounts;
use um_profile::trace::{Cause, RecordKind};

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// A device without concurrent access supports neither prefetch nor advice.
fn unless_unsupported(result: cuda_um::Result<HintOutcome>) {
    match result {
        Ok(_) | Err(Error::NotSupported { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Runs random operations on buffers of up to `most` numbers.
fn work(machine: &[(Device, Stream)], seed: u64, steps: usize, most: usize) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let kernels: Vec<Add> = machine
        .iter()
        .map(|(device, _)| Add::load(device))
        .collect();
    let allocate = |random: &mut Random| {
        let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
        let len = 1 + random.below(most);
        let buffer = UnifiedBuffer::<u32>::uninit_with(&machine[0].0, len, options).unwrap();
        #[allow(unsafe_code, reason = "the test needs untouched memory")]
        // SAFETY: the simulator's fresh managed memory reads as zeros.
        let buffer = unsafe { buffer.assume_init() };
        buffer
    };
    let mut buffers: Vec<_> = (0..6).map(|_| allocate(&mut random)).collect();
    for _ in 0..steps {
        let which = random.below(buffers.len());
        let (device, stream) = &machine[random.below(machine.len())];
        let ordinal = device.ordinal() as usize;
        let buffer = &mut buffers[which];
        let (start, len) = (random.below(buffer.len()), buffer.len());
        let end = start + 1 + random.below(len - start);
        let place = match random.below(2) {
            0 => Location::Host,
            _ => Location::from(device),
        };
        match random.below(12) {
            0..3 => {
                let view = buffer.view_mut(start..end).unwrap();
                let count = end - start;
                kernels[ordinal]
                    .launch(stream, count, (view, count as u32, 1u32))
                    .unwrap();
            }
            3..5 => unless_unsupported(buffer.view(start..end).unwrap().prefetch_on(place, stream)),
            5 => {
                let values = buffer.host().unwrap();
                assert!(
                    values[start..end]
                        .iter()
                        .step_by(1000)
                        .all(|one| *one < 1 << 30)
                );
            }
            6 => buffer.host_mut().unwrap()[start..end].fill(7),
            7 => buffer.fill_on(1, stream).unwrap(),
            8 => {
                let advice = [
                    Advice::SetReadMostly,
                    Advice::UnsetReadMostly,
                    Advice::SetPreferredLocation(place),
                    Advice::UnsetPreferredLocation,
                    Advice::SetAccessedBy(place),
                    Advice::UnsetAccessedBy(place),
                ][random.below(6)];
                unless_unsupported(buffer.view(start..end).unwrap().advise(advice));
            }
            9 => buffer
                .copy_from_host_at(start, &vec![3; end - start])
                .unwrap(),
            10 => buffer
                .copy_to_host_at(start, &mut vec![0; end - start])
                .unwrap(),
            _ => *buffer = allocate(&mut random),
        }
    }
}

/// Traces random work and compares; returns the counters, and whether an eviction was recorded.
fn compare(builder: Builder, seed: u64, most: usize) -> (cuda_um_sim::Counters, bool) {
    let _alone = alone();
    let sim = Checked::new(builder.build().unwrap());
    let runtime = open(&sim);
    let count = runtime.device_count().unwrap() as u32;
    let machine: Vec<_> = (0..count).map(|ordinal| on(&runtime, ordinal)).collect();
    sim.reset_counters();
    let ((), trace) = um_profile::profile(&runtime, || work(&machine, seed, 150, most)).unwrap();
    let counters = sim.counters();
    assert_eq!((trace.dropped_records, trace.dropped_operations), (0, 0));
    let mut counted = MigrationCounts::default();
    counted.bytes_to_device = counters.bytes_to_device;
    counted.bytes_to_host = counters.bytes_to_host;
    counted.bytes_device_to_device = counters.bytes_device_to_device;
    counted.gpu_faults = counters.gpu_faults;
    counted.gpu_fault_groups = counters.gpu_fault_groups;
    counted.cpu_faults = counters.cpu_faults;
    assert_eq!(sums(&trace), counted, "seed {seed}");
    assert_eq!(trace.kernels.len() as u64, counters.kernels);
    let (mut evicted, mut user) = (0, 0);
    for record in &trace.records {
        assert!(record.start <= record.end, "{record:?}");
        if let RecordKind::Migration { bytes, cause, .. } = record.kind {
            assert!(bytes <= 2 << 20, "{record:?}");
            match cause {
                Cause::Eviction => evicted += bytes,
                Cause::User => user += bytes,
                _ => {}
            }
        }
        // Only memory of a live buffer moves.
        let holds = |buffer: &&um_profile::trace::Buffer| {
            let pages = buffer.bytes.next_multiple_of(4096);
            (buffer.address..buffer.address + pages).contains(&record.address)
        };
        assert!(
            trace.buffers.iter().any(|buffer| holds(&buffer)),
            "{record:?}"
        );
    }
    assert_eq!(
        (evicted, user),
        (counters.evicted_bytes, counters.prefetched_bytes)
    );
    assert!(trace.kernels.iter().all(|run| run.operation.is_some()));
    (counters, evicted > 0)
}

#[test]
fn records_add_up_to_the_counters_on_every_machine_and_version() {
    let versions = [
        CudaVersion::V11_8,
        CudaVersion::V12_2,
        CudaVersion::V12_9,
        CudaVersion::V13_0,
        CudaVersion::V13_4,
    ];
    let gpus = [Gpu::H200, Gpu::Gh200, Gpu::Pascal, Gpu::NoConcurrentAccess];
    let mut moved = 0;
    for (seed, (cuda, gpu)) in versions
        .into_iter()
        .zip(gpus.into_iter().cycle())
        .enumerate()
    {
        for (more, gpu) in [gpu, Gpu::H200].into_iter().enumerate() {
            let builder = Sim::builder().cuda(cuda).gpu(gpu);
            let (counters, _) = compare(builder, (2 * seed + more) as u64, 1 << 20);
            moved += counters.bytes_to_device;
        }
    }
    assert!(moved > 0);
}

#[test]
fn records_add_up_between_two_devices() {
    let mut between = 0;
    for seed in 100..104 {
        let builder = Sim::builder().devices(2);
        between += compare(builder, seed, 1 << 19).0.bytes_device_to_device;
    }
    assert!(between > 0);
}

#[test]
fn records_add_up_when_a_device_is_full() {
    let mut evicted = false;
    for seed in 200..204 {
        let builder = Sim::builder().total_memory_bytes(8 << 20);
        evicted |= compare(builder, seed, 1 << 20).1;
    }
    assert!(evicted);
}
