//! Reads of storage: the places of the runs, failures, rounds, and reads beside other work.

use super::*;
use std::io::{ErrorKind, Write};
use std::sync::Mutex;

fn range(offset: u64, at: usize, bytes: usize) -> Runs {
    Runs {
        offset,
        at,
        ..whole(bytes)[0]
    }
}

/// What a target has to hold.
fn expected(storage: &Storage, runs: &[Runs], len: usize) -> Vec<u8> {
    let mut target = vec![0; len];
    for run in runs {
        for number in 0..run.count {
            let (at, from) = (run.at + number * run.bytes, run.offset as usize);
            let from = from + number * run.stride as usize;
            target[at..at + run.bytes].copy_from_slice(&storage.bytes[from..from + run.bytes]);
        }
    }
    target
}

#[test]
fn every_byte_arrives_in_its_place_in_memory_of_each_kind() {
    let (_sim, device, _) = device();
    const LEN: usize = 300_000;
    let mut storage = Storage::of(1_000_000);
    let strided = Runs {
        count: 5000,
        stride: 100,
        ..range(700, 120_001, 33)
    };
    let neighbour = |number: u64| range(number * 1000, number as usize * 1000 + 24, 900);
    let all = [
        vec![],
        vec![range(5, 7, LEN - 7)],
        vec![range(900_000, 0, 100_000), strided, range(0, 299_990, 10)],
        (0..300).map(neighbour).collect(),
    ];
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&storage.bytes).unwrap();
    for (threads, at_a_time) in [(1, usize::MAX), (3, 7000), (2, 1)] {
        device.set_transfer_options(small(threads));
        storage.at_a_time = at_a_time;
        for runs in &all[..if at_a_time == 1 { 2 } else { 4 }] {
            let mut on_device = DeviceBuffer::<u8>::from_slice(&device, &[9; LEN]).unwrap();
            let mut unified = UnifiedBuffer::<u8>::from_slice(&device, &[9; LEN]).unwrap();
            let mut pinned = PinnedBuffer::<u8>::from_slice(&device, &[9; LEN]).unwrap();
            let reads = [
                FileRead::new(on_device.as_view_mut(), &storage, runs),
                FileRead::new(unified.as_view_mut(), &file, runs),
                FileRead::new(pinned.as_view_mut(), &storage, runs),
            ];
            let mut reads = reads.map(Result::unwrap);
            assert_eq!(FileRead::run(&mut reads, usize::MAX, on).unwrap(), 3 * LEN);
            let right = expected(&storage, runs, LEN);
            assert!(on_device.to_vec().unwrap() == right, "{threads}");
            assert!(unified.to_vec().unwrap() == right, "{threads}");
            assert!(pinned.to_vec().unwrap() == right, "{threads}");
        }
    }
}

#[test]
fn a_failure_has_its_place_and_all_bytes_before_it_arrive() {
    let (sim, device, _) = simulated(Gpu::H200);
    let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 400_000).unwrap();
    for (threads, at, kind) in [
        (1, 100_000, ErrorKind::Other),
        (3, 123_456, ErrorKind::PermissionDenied),
        (3, 0, ErrorKind::Other),
    ] {
        device.set_transfer_options(small(threads));
        let mut storage = Storage::of(400_000);
        storage.fails_at = Some((at, kind));
        let failed = read(buffer.as_view_mut(), &storage, &whole(400_000));
        fails!(failed, Error::Io { done_bytes, ref source, .. } if (done_bytes as u64, source.kind()) == (at, kind));
        // The last piece is not copied.
        let whole_pieces = ..(at - at % 16384) as usize;
        assert!(buffer.to_vec().unwrap()[whole_pieces] == storage.bytes[whole_pieces]);
        // The file is shorter than the runs.
        storage.fails_at = None;
        storage.bytes.truncate(300_001);
        let failed = read(buffer.as_view_mut(), &storage, &whole(400_000));
        fails!(failed, Error::Io { done_bytes: 300_001, ref source, .. } if source.kind() == ErrorKind::UnexpectedEof);
    }
    // Behind a gap of the target, of which the storage knows nothing.
    let mut storage = Storage::of(400_000);
    storage.fails_at = Some((600, ErrorKind::Other));
    let runs = [range(0, 0, 500), range(500, 700, 500)];
    let failed = read(buffer.as_view_mut(), &storage, &runs);
    fails!(
        failed,
        Error::Io {
            done_bytes: 800,
            ..
        }
    );
    // Of CUDA.
    device.set_transfer_options(small(1));
    storage.fails_at = None;
    sim.fail(Fail::call("cudaMemcpyAsync").nth(4));
    let failed = read(buffer.as_view_mut(), &storage, &whole(400_000));
    fails!(failed, Error::Incomplete { copied_bytes, .. } if copied_bytes == 3 * 16384);
    assert!(buffer.to_vec().unwrap()[..3 * 16384] == storage.bytes[..3 * 16384]);
    let done = read(buffer.as_view_mut(), &storage, &whole(400_000));
    assert_eq!(done.unwrap(), 400_000);
    assert!(buffer.to_vec().unwrap() == storage.bytes);
}

/// claim 39
#[test]
fn options_may_be_set_between_two_rounds() {
    let (sim, device, _) = simulated(Gpu::H200);
    device.set_transfer_options(small(3));
    let (storage, runs) = (Storage::of(2_000_000), whole(2_000_000));
    let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 2_000_000).unwrap();
    let mut reads = [FileRead::new(buffer.as_view_mut(), &storage, &runs).unwrap()];
    let mut rounds = 0;
    let done = FileRead::run(&mut reads, usize::MAX, |_| {
        rounds += 1;
        if rounds == 1 {
            device.set_transfer_options(small(1));
        }
        ControlFlow::Continue(())
    });
    assert!(done.unwrap() == 2_000_000 && rounds > 1);
    assert_eq!(pinned(&sim), [2 * 16384], "the ring of one thread");
    assert!(buffer.to_vec().unwrap() == storage.bytes);
}

#[test]
fn progress_grows_to_the_end_and_stops_the_read() {
    let (sim, device, _) = simulated(Gpu::H200);
    device.set_transfer_options(small(2));
    let storage = Storage::of(1_000_000);
    let runs = whole(500_000);
    let mut buffers = [(); 2].map(|()| DeviceBuffer::<u8>::zeroed(&device, 500_000).unwrap());
    let mut run = |until: usize| {
        let views = buffers.each_mut().map(DeviceBuffer::as_view_mut);
        let mut reads = views.map(|view| FileRead::new(view, &storage, &runs).unwrap());
        let mut seen = Vec::new();
        let done = FileRead::run(&mut reads, usize::MAX, |done| {
            seen.push(done);
            match done < until {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        assert!(seen.is_sorted() && seen.last() == Some(done.as_ref().unwrap()));
        (done.unwrap(), seen.len())
    };
    // Two threads with 16 pieces each: 31 are one buffer.
    assert_eq!(run(200_000), (500_000 + 16384, 1));
    assert_eq!(run(usize::MAX), (1_000_000, 2));
    for buffer in &buffers {
        assert!(buffer.to_vec().unwrap() == storage.bytes[..500_000]);
    }
    device.synchronize().unwrap();
    let counters = sim.counters();
    assert_eq!(counters.gpu_faults + counters.cpu_faults, 0);
}

/// Storage that uses the library itself.
struct Nested {
    storage: Storage,
    others: Storage,
    other: Mutex<DeviceBuffer<u8>>,
}

impl ReadAt for Nested {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut other = self.other.lock().unwrap();
        read(other.as_view_mut(), &self.others, &whole(50_000)).unwrap();
        assert!(other.to_vec().unwrap() == self.others.bytes);
        self.storage.read_at(into, offset)
    }
}

#[test]
fn reads_copies_and_reads_within_reads_run_at_the_same_time() {
    let (_sim, device, _) = device();
    let _watchdog = watch();
    device.set_transfer_options(small(2));
    let storage = Storage::of(500_000);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 500_000).unwrap();
                    read(buffer.as_view_mut(), &storage, &whole(500_000)).unwrap();
                    assert!(buffer.to_vec().unwrap() == storage.bytes);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..20 {
                let buffer = DeviceBuffer::<u8>::from_slice(&device, &storage.bytes).unwrap();
                assert!(buffer.to_vec().unwrap() == storage.bytes);
            }
        });
        scope.spawn(|| {
            let nested = Nested {
                storage: Storage::of(100_000),
                others: Storage::of(50_000),
                other: Mutex::new(DeviceBuffer::zeroed(&device, 50_000).unwrap()),
            };
            let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 100_000).unwrap();
            read(buffer.as_view_mut(), &nested, &whole(100_000)).unwrap();
            assert!(buffer.to_vec().unwrap() == nested.storage.bytes);
        });
    });
}

#[test]
fn wrong_runs_and_targets_are_refused() {
    let (_sim, device, _) = simulated(Gpu::Gh200);
    let storage = Storage::of(100);
    let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 100).unwrap();
    let strided = |bytes, count, stride| Runs {
        bytes,
        count,
        stride,
        ..range(0, 0, 1)
    };
    for wrong in [
        vec![range(0, 0, 101)],
        vec![range(0, 99, 2)],
        vec![range(0, 0, 0)],
        vec![range(0, usize::MAX, 2)],
        vec![range(u64::MAX, 0, 2)],
        vec![range(0, 10, 10), range(50, 19, 1)],
        vec![strided(10, 0, 10)],
        vec![strided(10, 11, 10)],
        vec![strided(usize::MAX / 2, 3, 10)],
        vec![strided(1, 3, u64::MAX / 2 + 1)],
    ] {
        let refused = FileRead::new(buffer.as_view_mut(), &storage, &wrong);
        fails!(refused, Error::InvalidArgument { .. });
    }
    assert_eq!(FileRead::run(&mut [], usize::MAX, on).unwrap(), 0);
    let (_sim, other, _) = simulated(Gpu::H200);
    let mut far = DeviceBuffer::<u8>::zeroed(&other, 100).unwrap();
    let runs = whole(100);
    let mut reads = [buffer.as_view_mut(), far.as_view_mut()]
        .map(|view| FileRead::new(view, &storage, &runs).unwrap());
    let refused = FileRead::run(&mut reads, usize::MAX, on);
    fails!(refused, Error::RuntimeMismatch { .. });
}
