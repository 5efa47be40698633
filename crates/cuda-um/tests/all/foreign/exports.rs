//! Exports, with and without fences.

use cuda_um::{DeviceBuffer, Error, PinnedBuffer, Stream, UnifiedBuffer, sys};
use cuda_um_sim::{Gpu, Leak, Sim};
use cuda_um_testkit::{calls, device, on, open_with, simulated, simulated_with};
use std::ffi::c_void;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};

/// A fill by "another library".
fn their_fill(sim: &Sim, stream: &Stream, address: *mut u8, bytes: usize, value: i32) {
    // SAFETY: the address is valid for as many bytes.
    let code =
        unsafe { (sim.table().cudaMemsetAsync)(address.cast(), value, bytes, stream.as_raw()) };
    assert_eq!(code, sys::cudaError::cudaSuccess);
}

const LEN: usize = 1 << 16;

#[test]
fn an_export_runs_after_our_work_and_before_later_work() {
    let (sim, device, ours) = device();
    let Some(sim) = &sim else { return };
    let theirs = device.create_stream().unwrap();
    let mut buffer = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap());
    for round in 1..20u8 {
        Arc::get_mut(&mut buffer)
            .unwrap()
            .fill_on(round, &ours)
            .unwrap();
        // SAFETY: no guard lives.
        let exported = unsafe { buffer.export_mut(&theirs) }.unwrap();
        assert_eq!(exported.as_view().len(), LEN);
        their_fill(sim, &theirs, exported.as_mut_ptr().unwrap(), LEN / 2, 100);
        assert!(Arc::get_mut(&mut buffer).is_none());
        exported.returned_on(&theirs).unwrap();
        let host = buffer.host().unwrap();
        assert_eq!((host[0], host[LEN - 1]), (100, round));
    }
}

#[test]
fn each_kind_can_be_exported_to_be_read() {
    let (_sim, device, stream) = device();
    let unified = Arc::new(UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap());
    let on_device = Arc::new(DeviceBuffer::<u32>::zeroed(&device, 10).unwrap());
    let pinned = Arc::new(PinnedBuffer::<u32>::zeroed(&device, 10).unwrap());
    let exports = [
        (
            unified.export(&stream).unwrap(),
            unified.as_ptr(),
            unified.as_view().kind(),
        ),
        (
            on_device.export(&stream).unwrap(),
            on_device.as_ptr(),
            on_device.as_view().kind(),
        ),
        (
            pinned.export(&stream).unwrap(),
            pinned.as_ptr(),
            pinned.as_view().kind(),
        ),
    ];
    for (exported, address, kind) in exports {
        let view = exported.as_view();
        assert_eq!(view.as_ptr(), address.cast());
        assert_eq!((view.len(), view.kind()), (40, kind));
        assert!(exported.as_mut_ptr().is_none());
        assert_eq!(view.device().ordinal(), device.ordinal());
        // It can be sent, and outlives its buffer's handle.
        std::thread::spawn(move || drop(exported)).join().unwrap();
    }
}

/// claim 13: What the other library does is not known: a wait for the device is the only one that is enough.
#[test]
fn guards_wait_for_the_device_while_an_export_for_writes_lives() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let hidden = device.create_stream().unwrap();
    let buffer = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap());
    device.synchronize().unwrap();
    // SAFETY: no guard lives while the other library writes.
    let exported = unsafe { buffer.export_mut(&stream) }.unwrap();
    let address = exported.as_mut_ptr().unwrap();
    for value in [3, 4] {
        their_fill(&sim, &hidden, address, LEN, value.into());
        assert!(matches!(buffer.try_host(), Err(Error::Busy { .. })));
        assert_eq!(buffer.host().unwrap()[0], value);
        their_fill(&sim, &hidden, address, LEN, 10 + i32::from(value));
        let mut copy = DeviceBuffer::<u8>::zeroed(&device, LEN).unwrap();
        stream.copy(&*buffer, &mut copy).unwrap();
        assert_eq!(copy.read_one(LEN - 1).unwrap(), 10 + value);
    }
    their_fill(&sim, &hidden, address, LEN, 9);
    drop(exported);
    let waits = calls(&sim, "cudaDeviceSynchronize");
    assert_eq!(buffer.host().unwrap()[0], 9, "a drop without a fence");
    assert_eq!(calls(&sim, "cudaDeviceSynchronize"), waits + 1);
    assert_eq!(buffer.try_host().unwrap()[0], 9);
    assert_eq!(
        calls(&sim, "cudaDeviceSynchronize"),
        waits + 1,
        "once is enough"
    );
}

static SYNCHRONIZE: OnceLock<unsafe extern "C" fn() -> sys::cudaError_t> = OnceLock::new();
/// What runs once, at the end of the next wait for a device.
static AFTER_THE_WAIT: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

unsafe extern "C" fn synchronize() -> sys::cudaError_t {
    let after = AFTER_THE_WAIT.lock().unwrap().take();
    // SAFETY: guaranteed by the caller.
    let code = unsafe { SYNCHRONIZE.get().unwrap()() };
    after.into_iter().for_each(|after| after());
    code
}

/// claim 13: The wait is over, and the work of the other library is not: the next use waits once more.
#[test]
fn an_export_that_ends_during_a_wait_is_waited_for_again() {
    let (sim, ..) = simulated(Gpu::H200);
    SYNCHRONIZE.get_or_init(|| sim.table().cudaDeviceSynchronize);
    // SAFETY: the function calls the simulator's.
    let runtime =
        unsafe { open_with(&sim, c"cudaDeviceSynchronize", synchronize as *const c_void) };
    let (device, stream) = on(&runtime, 0);
    let hidden = device.create_stream().unwrap();
    let buffer = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap());
    let mut copy = DeviceBuffer::<u8>::zeroed(&device, LEN).unwrap();
    device.synchronize().unwrap();
    // SAFETY: no guard lives while the other library writes.
    let exported = unsafe { buffer.export_mut(&stream) }.unwrap();
    let (held, is_held) = channel();
    let simulator = (*sim).clone();
    *AFTER_THE_WAIT.lock().unwrap() = Some(Box::new(move || {
        // An order in which our stream goes before theirs.
        held.send(simulator.hold(5)).unwrap();
        let address = exported.as_mut_ptr().unwrap();
        their_fill(&simulator, &hidden, address, LEN, 7);
        drop(exported);
    }));
    stream.copy(&*buffer, &mut copy).unwrap();
    let _held = is_held.try_recv().unwrap();
    assert_eq!(copy.read_one(LEN - 1).unwrap(), 7);
    assert_eq!(buffer.host().unwrap()[LEN - 1], 7);
    assert_eq!(buffer.try_host().unwrap()[0], 7, "once is enough");
}

/// The memory is there for the other library when no handle of the library is left.
#[test]
fn an_export_that_outlives_all_handles_keeps_its_memory() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let buffer = Arc::new(DeviceBuffer::<u8>::zeroed(&device, LEN).unwrap());
    let neighbour = DeviceBuffer::<u8>::zeroed(&device, LEN).unwrap();
    device.synchronize().unwrap();
    // SAFETY: nothing else uses the memory.
    let exported = unsafe { buffer.export_mut(&stream) }.unwrap();
    let theirs = exported.as_mut_ptr().unwrap();
    drop((buffer, neighbour));
    device.trim();
    drop((device, stream));
    let default = std::ptr::null_mut();
    // SAFETY: the export keeps the memory; the null stream is CUDA's default stream.
    let code = unsafe { (sim.table().cudaMemsetAsync)(theirs.cast(), 7, LEN, default) };
    assert_eq!(code, sys::cudaError::cudaSuccess);
    let is_memory = |leak: &&Leak| matches!(leak, Leak::Memory { .. });
    assert!(sim.leaks().iter().any(|leak| is_memory(&leak)));
    drop(exported);
}

#[test]
fn an_export_for_reads_is_only_in_the_way_of_writes() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut buffer = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap());
    let exported = buffer.export(&stream).unwrap();
    device.synchronize().unwrap();
    let waits = || calls(&sim, "cudaDeviceSynchronize");
    let before = waits();
    assert_eq!(buffer.try_host().unwrap()[0], 0);
    let mut copy = DeviceBuffer::<u8>::zeroed(&device, LEN).unwrap();
    stream.copy(&*buffer, &mut copy).unwrap();
    drop(exported);
    assert_eq!(buffer.host().unwrap()[0], 0);
    assert_eq!(waits(), before);
    Arc::get_mut(&mut buffer)
        .unwrap()
        .fill_on(1, &stream)
        .unwrap();
    assert_eq!(
        waits(),
        before + 1,
        "the reads of the other library are over"
    );
    assert_eq!(buffer.host().unwrap()[0], 1);
}

#[test]
fn a_fence_is_a_stream() {
    let (sim, device, ours) = simulated(Gpu::H200);
    let theirs = device.create_stream().unwrap();
    let buffer = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap());
    device.synchronize().unwrap();
    let mut waits = calls(&sim, "cudaDeviceSynchronize");
    for by_event in [false, true] {
        // SAFETY: no guard lives.
        let exported = unsafe { buffer.export_mut(&theirs) }.unwrap();
        let paused = sim.pause();
        their_fill(&sim, &theirs, exported.as_mut_ptr().unwrap(), LEN, 8);
        let fence = device.create_stream().unwrap();
        match by_event {
            false => exported.returned_on(&theirs).unwrap(),
            true => {
                fence.wait(&theirs.record().unwrap()).unwrap();
                exported.returned_on(&fence).unwrap();
            }
        }
        assert!(matches!(buffer.try_host(), Err(Error::Busy { .. })));
        let mut copy = DeviceBuffer::<u8>::zeroed(&device, LEN).unwrap();
        ours.copy(&*buffer, &mut copy).unwrap();
        drop(paused);
        assert_eq!(copy.read_one(5).unwrap(), 8);
        assert_eq!(buffer.host().unwrap()[5], 8);
        assert_eq!(
            calls(&sim, "cudaDeviceSynchronize"),
            waits,
            "by event: {by_event}"
        );
        waits = calls(&sim, "cudaDeviceSynchronize");
    }
}

/// claim 13: The memory does not go to its next owner while the other library may use it.
#[test]
fn memory_of_a_pool_is_not_reused_before_unknown_work_is_over() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let hidden = device.create_stream().unwrap();
    for drop_first in [false, true] {
        let buffer = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap());
        device.synchronize().unwrap();
        let address = buffer.as_ptr();
        // SAFETY: no guard lives.
        let exported = unsafe { buffer.export_mut(&stream) }.unwrap();
        let paused = sim.pause();
        their_fill(&sim, &hidden, exported.as_mut_ptr().unwrap(), LEN, 77);
        if drop_first {
            drop(buffer);
            drop(exported);
        } else {
            drop(exported);
            drop(buffer);
        }
        drop(paused);
        let next = UnifiedBuffer::<u8>::from_slice(&device, &[1; LEN]).unwrap();
        assert_eq!(next.as_ptr(), address, "the pool reuses the memory");
        device.synchronize().unwrap();
        assert_eq!(*next.host().unwrap(), [1; LEN]);
    }
}

#[test]
fn exports_work_without_concurrent_managed_access() {
    let (sim, device, stream) = simulated_with(|builder| builder.gpu(Gpu::NoConcurrentAccess));
    let theirs = device.create_stream().unwrap();
    let buffer = Arc::new(UnifiedBuffer::<u8>::zeroed(&device, LEN).unwrap());
    // SAFETY: no guard lives.
    let exported = unsafe { buffer.export_mut(&theirs) }.unwrap();
    their_fill(&sim, &theirs, exported.as_mut_ptr().unwrap(), LEN, 8);
    assert_eq!(buffer.host().unwrap()[0], 8);
    drop(exported);
    let exported = buffer.export(&stream).unwrap();
    assert_eq!(buffer.host().unwrap()[0], 8);
    exported.returned_on(&stream).unwrap();
    assert_eq!(buffer.host().unwrap()[0], 8);
}
