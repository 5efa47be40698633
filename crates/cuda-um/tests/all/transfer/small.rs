//! Copies of 128 KiB and less: each goes through a piece of pinned memory.

use super::*;
use cuda_um::Stream;
use cuda_um_testkit::{Add, open, without_pools};

const KIB: usize = 1 << 10;

/// The calls since the trace was cleared.
fn names(sim: &Sim) -> Vec<&'static str> {
    let names = sim.trace().into_iter().map(|call| call.name);
    names.filter(|name| *name != "cudaGetDevice").collect()
}

#[test]
fn a_small_copy_is_one_call_of_cuda() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let mut unified = UnifiedBuffer::<u8>::zeroed(&device, 128 * KIB).unwrap();
    let mut memory = DeviceBuffer::<u8>::zeroed(&device, 128 * KIB).unwrap();
    // The first copy allocates the piece.
    memory.copy_from_host_at(0, &[0]).unwrap();
    for bytes in [1, 4 * KIB, 128 * KIB] {
        let source: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let mut back = vec![0; bytes];
        // Otherwise a copy of 128 KiB waits for space in the piece.
        device.synchronize().unwrap();
        sim.clear_trace();
        unified.copy_from_host_at(0, &source).unwrap();
        memory.copy_from_host_at(0, &source).unwrap();
        assert_eq!(names(&sim), ["cudaMemcpyAsync"; 2], "{bytes} bytes");
        device.synchronize().unwrap();
        sim.clear_trace();
        unified.copy_to_host_at(0, &mut back).unwrap();
        memory.copy_to_host_at(0, &mut back).unwrap();
        let one = ["cudaMemcpyAsync", "cudaStreamSynchronize"];
        assert_eq!(names(&sim), [one, one].concat(), "{bytes} bytes");
        assert_eq!(back, source);
    }
}

/// A device whose streams write values to memory.
fn with_flags() -> (Sim, Device, Stream) {
    let sim = Sim::builder().stream_writes(true).build().unwrap();
    let device = open(&sim).device(0).unwrap();
    let stream = device.create_stream().unwrap();
    (sim, device, stream)
}

fn reads(sim: &Sim, device: &Device) -> Vec<&'static str> {
    let mut memory = DeviceBuffer::<u32>::zeroed(device, KIB).unwrap();
    memory.write_one(KIB - 1, 7).unwrap();
    device.synchronize().unwrap();
    sim.clear_trace();
    let found = [memory.read_one(KIB - 1), memory.read_one(0)].map(Result::unwrap);
    assert_eq!(found, [7, 0]);
    names(sim)
}

#[test]
fn the_stream_writes_a_flag_after_a_copy_to_the_host() {
    let (sim, device, stream) = with_flags();
    // A host that sees the flag too late also waits for the stream.
    let mut names = reads(&sim, &device);
    names.retain(|name| *name != "cudaStreamSynchronize");
    let one = ["cudaMemcpyAsync", "cuStreamWriteValue32"];
    assert_eq!(names, [one, one].concat());
    // No earlier copy left these bytes in the piece.
    let mut memory = DeviceBuffer::<u32>::zeroed(&device, 32 * KIB).unwrap();
    for turn in 1..=50 {
        memory.fill_on(turn, &stream).unwrap();
        assert_eq!(memory.read_one(32 * KIB - 1).unwrap(), turn);
        memory.fill_on(turn + 100, &stream).unwrap();
        assert_eq!(memory.to_vec().unwrap(), vec![turn + 100; 32 * KIB]);
    }
}

#[test]
fn without_flags_or_in_vain_the_copy_waits_for_the_stream() {
    let (sim, device, _) = with_flags();
    // The work begins when the host waits.
    let memory = DeviceBuffer::<u32>::zeroed(&device, KIB).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    sim.clear_trace();
    assert_eq!(memory.read_one(0).unwrap(), 0);
    drop(held);
    let calls = names(&sim);
    assert!(calls.contains(&"cuStreamWriteValue32") && calls.contains(&"cudaStreamSynchronize"));

    let (sim, device, _) = with_flags();
    sim.fail(Fail::call("cuStreamWriteValue32"));
    let names = reads(&sim, &device);
    let tried = names.iter().filter(|name| name.ends_with("Value32"));
    assert_eq!(tried.count(), 1, "it is not tried again: {names:?}");
    assert!(names.ends_with(&["cudaMemcpyAsync", "cudaStreamSynchronize"]));
}

#[test]
fn the_error_of_a_kernel_comes_out_of_the_copy_that_waits_for_its_flag() {
    let (sim, device, stream) = with_flags();
    // In a slab of a pool there is memory behind the buffer.
    without_pools(&device);
    let broken = Add::load(&device);
    // Far beyond the buffer.
    let mut small = DeviceBuffer::<u32>::zeroed(&device, 4).unwrap();
    broken.run(&stream, &mut small, 1 << 20, 1);
    let error = small.read_one(0).unwrap_err();
    assert!(error.is_sticky(), "{error}");
    assert!(sim.misuse().len() == 1, "{:?}", sim.misuse());
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
        assert!(memory.to_vec().unwrap() == expected, "{bytes} bytes");
    }
}

#[test]
fn copies_that_have_not_run_keep_their_source() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let buffer = || DeviceBuffer::<u8>::zeroed(&device, 64 * KIB).unwrap();
    let mut both = [buffer(), buffer()];
    device.synchronize().unwrap();
    let held = sim.hold(0);
    let mut source = vec![0; 64 * KIB];
    for (number, buffer) in both.iter_mut().enumerate() {
        source.fill(number as u8 + 1);
        buffer.copy_from_host(&source).unwrap();
    }
    assert!(!held.is_over(), "neither copy waits");
    drop(held);
    let found = both.map(|buffer| buffer.to_vec().unwrap());
    assert_eq!(found, [1, 2].map(|number| vec![number; 64 * KIB]));
}
