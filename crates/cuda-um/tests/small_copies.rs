//! Small copies between ordinary memory and a device: each goes through a piece of pinned memory.

use cuda_um::{DeviceBuffer, TransferOptions, UnifiedBuffer};
use cuda_um_sim::{Gpu, Leak};
use cuda_um_testkit::{calls, device, simulated};

const KIB: usize = 1 << 10;

#[test]
fn a_small_copy_is_one_call_of_cuda() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let mut unified = UnifiedBuffer::<u8>::zeroed(&device, 128 * KIB).unwrap();
    let mut memory = DeviceBuffer::<u8>::zeroed(&device, 128 * KIB).unwrap();
    // The first copy allocates the piece.
    memory.copy_from_host_at(0, &[0]).unwrap();
    device.synchronize().unwrap();
    for bytes in [1, 4 * KIB, 128 * KIB] {
        let source: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let mut back = vec![0; bytes];
        for to_device in [true, false] {
            // Otherwise a copy of 128 KiB waits for space in the piece.
            device.synchronize().unwrap();
            sim.clear_trace();
            match to_device {
                true => unified.copy_from_host_at(0, &source).unwrap(),
                false => unified.copy_to_host_at(0, &mut back).unwrap(),
            }
            match to_device {
                true => memory.copy_from_host_at(0, &source).unwrap(),
                false => memory.copy_to_host_at(0, &mut back).unwrap(),
            }
            let mut names: Vec<_> = sim.trace().iter().map(|call| call.name).collect();
            names.retain(|name| *name != "cudaGetDevice");
            let wait = |names: &[&'static str]| match to_device {
                true => names.to_vec(),
                false => [names, &["cudaStreamSynchronize"]].concat(),
            };
            let one = wait(&["cudaMemcpyAsync"]);
            assert_eq!(names, [one.clone(), one].concat(), "{bytes} bytes");
        }
        assert_eq!(back, source);
    }
}

#[test]
fn scalars_are_read_and_written_in_order() {
    let (_sim, device, stream) = device();
    let mut unified = UnifiedBuffer::<f32>::zeroed(&device, 3).unwrap();
    let mut memory = DeviceBuffer::<f32>::zeroed(&device, 3).unwrap();
    memory.fill(0.5, &stream).unwrap();
    memory.write_one(1, 2.5).unwrap();
    stream.copy(&memory, &mut unified).unwrap();
    unified.write_one(2, -1.0).unwrap();
    let all = [0, 1, 2].map(|index| unified.read_one(index).unwrap());
    assert_eq!(all, [0.5, 2.5, -1.0]);
    assert_eq!(memory.read_one(2).unwrap(), 0.5);
}

/// Far more copies than a piece has space for, none of which is waited for by the caller.
#[test]
fn a_full_piece_waits_for_its_copies() {
    let (_sim, device, _stream) = device();
    for bytes in [1, 300, 4 * KIB, 100 * KIB] {
        let count = (600 * KIB / bytes.max(KIB)).max(8);
        let mut memory = DeviceBuffer::<u8>::zeroed(&device, bytes * count).unwrap();
        let expected: Vec<u8> = (0..bytes * count).map(|at| (at / bytes) as u8).collect();
        for (number, source) in expected.chunks(bytes).enumerate() {
            memory.copy_from_host_at(number * bytes, source).unwrap();
        }
        assert!(memory.read_back().unwrap() == expected, "{bytes} bytes");
    }
}

#[test]
fn copies_that_have_not_run_keep_their_source() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let mut first = DeviceBuffer::<u8>::zeroed(&device, 64 * KIB).unwrap();
    let mut second = DeviceBuffer::<u8>::zeroed(&device, 64 * KIB).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    let mut source = vec![1; 64 * KIB];
    first.copy_from_host(&source).unwrap();
    source.fill(2);
    second.copy_from_host(&source).unwrap();
    assert!(!held.is_over(), "neither copy waits");
    drop(held);
    assert_eq!(first.read_back().unwrap(), vec![1; 64 * KIB]);
    assert_eq!(second.read_back().unwrap(), source);
}

#[test]
fn threads_copy_at_the_same_time() {
    let (_sim, device, _stream) = device();
    std::thread::scope(|scope| {
        for thread in 0..20u32 {
            let device = &device;
            scope.spawn(move || {
                let mut buffer = DeviceBuffer::<u32>::zeroed(device, 1000).unwrap();
                for round in 0..50 {
                    let source = [thread * 1000 + round; 1000];
                    buffer.copy_from_host(&source).unwrap();
                    assert_eq!(buffer.read_back().unwrap(), source);
                }
            });
        }
    });
}

#[test]
fn pinned_memory_is_freed_by_trim_and_not_used_if_staging_is_off() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let mut buffer = DeviceBuffer::<u8>::zeroed(&device, KIB).unwrap();
    let pinned = || {
        let leaks = sim.leaks();
        let is_pinned =
            |leak: &&Leak| matches!(leak, Leak::Memory { kind, .. } if *kind == "cudaHostAlloc");
        leaks.iter().filter(is_pinned).count()
    };
    buffer.copy_from_host(&[3; KIB]).unwrap();
    assert_eq!(pinned(), 1);
    device.trim();
    assert_eq!(pinned(), 0);
    assert_eq!(buffer.read_back().unwrap(), [3; KIB]);
    assert_eq!(pinned(), 1);
    device.set_transfer_options(TransferOptions::default().ring_bytes(0));
    assert_eq!(pinned(), 0);
    buffer.copy_from_host(&[4; KIB]).unwrap();
    assert_eq!((pinned(), calls(&sim, "cudaHostAlloc")), (0, 2));
    assert_eq!(buffer.read_back().unwrap(), [4; KIB]);
}
