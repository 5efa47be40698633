//! Exports, with and without fences.

use super::their_fill;
use cuda_um::buffer::Exported;
use cuda_um::{DeviceBuffer, Error, MemoryKind, Stream, UnifiedBuffer, sys};
use cuda_um_sim::{Gpu, Leak};
use cuda_um_testkit::{any_buffer, calls, device, each, fails, on, open_with, simulated};
use std::ffi::c_void;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};

const LEN: usize = 1 << 16;

type Lent = Arc<UnifiedBuffer<u8>>;

fn buffer(device: &cuda_um::Device) -> Lent {
    let buffer = UnifiedBuffer::<u8>::zeroed(device, LEN).unwrap();
    device.synchronize().unwrap();
    Arc::new(buffer)
}

/// An export for writes, and its address.
fn lend(buffer: &Lent, stream: &Stream) -> (Exported, *mut u8) {
    // SAFETY: no guard lives while the other library writes.
    let exported = unsafe { buffer.export_mut(stream) }.unwrap();
    let address = exported.as_mut_ptr().unwrap();
    (exported, address)
}

fn fill(buffer: &mut Lent, value: u8, stream: &Stream) {
    let buffer = Arc::get_mut(buffer).expect("no export lives");
    buffer.fill_on(value, stream).unwrap();
}

/// A copy on the stream.
fn copy(buffer: &Lent, stream: &Stream) -> DeviceBuffer<u8> {
    let mut copy = DeviceBuffer::zeroed(buffer.device(), LEN).unwrap();
    stream.copy(&**buffer, &mut copy).unwrap();
    copy
}

#[test]
fn each_kind_can_be_exported_to_be_read() {
    let (_sim, device, stream) = device();
    for kind in [MemoryKind::Managed, MemoryKind::Device, MemoryKind::Pinned] {
        let buffer = any_buffer!(kind, Buffer => Buffer::zeroed(&device, 10).unwrap());
        each!(buffer, buffer => {
            let buffer = Arc::new(buffer);
            let exported = buffer.export(&stream).unwrap();
            let view = buffer.as_view();
            let bytes = exported.as_view();
            assert_eq!(bytes.as_ptr(), view.as_ptr().cast());
            assert_eq!((bytes.len(), bytes.kind()), (40, view.kind()));
            assert!(exported.as_mut_ptr().is_none());
            assert_eq!(bytes.device().ordinal(), device.ordinal());
            drop(buffer);
            // It can be sent, and outlives its buffer's handle.
            std::thread::spawn(move || drop(exported)).join().unwrap();
        });
    }
}

/// claim 13: what the other library does is not known. A wait for the device is the only one that is enough
#[test]
fn guards_wait_for_the_device_while_an_export_for_writes_lives() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (_other_sim, _, stranger) = simulated(Gpu::H200);
    let hidden = device.create_stream().unwrap();
    let buffer = buffer(&device);
    let waits = || calls(&sim, "cudaDeviceSynchronize");
    let (exported, address) = lend(&buffer, &stream);
    for value in [3, 4] {
        their_fill(&sim, &hidden, address, LEN, value);
        fails!(buffer.try_host(), Error::Busy { .. });
        assert_eq!(buffer.host().unwrap()[0], value);
        their_fill(&sim, &hidden, address, LEN, 10 + value);
        let copied = copy(&buffer, &stream).read_one(LEN - 1).unwrap();
        assert_eq!(copied, 10 + value);
    }
    // Without a fence, or with a wrong one.
    for exported in [exported, lend(&buffer, &stream).0] {
        their_fill(&sim, &hidden, address, LEN, 9);
        let refused = exported.returned_on(&stranger);
        fails!(refused, Error::RuntimeMismatch { .. });
    }
    drop(lend(&buffer, &stream));
    let before = waits();
    assert_eq!(buffer.host().unwrap()[0], 9);
    assert_eq!(buffer.try_host().unwrap()[0], 9);
    assert_eq!(waits(), before + 1, "once is enough");
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

/// claim 13: the wait is over, and the work of the other library is not, so the next use waits once more
#[test]
fn an_export_that_ends_during_a_wait_is_waited_for_again() {
    let (sim, ..) = simulated(Gpu::H200);
    SYNCHRONIZE.get_or_init(|| sim.table().cudaDeviceSynchronize);
    let function = synchronize as *const c_void;
    // SAFETY: the function calls the simulator's.
    let runtime = unsafe { open_with(&sim, c"cudaDeviceSynchronize", function) };
    let (device, stream) = on(&runtime, 0);
    let hidden = device.create_stream().unwrap();
    let (buffer, before) = (buffer(&device), buffer(&device));
    drop(copy(&before, &stream));
    device.synchronize().unwrap();
    let (exported, _) = lend(&buffer, &stream);
    let (held, is_held) = channel();
    let simulator = (*sim).clone();
    *AFTER_THE_WAIT.lock().unwrap() = Some(Box::new(move || {
        // An order in which our stream goes before theirs.
        held.send(simulator.hold(5)).unwrap();
        let address = exported.as_mut_ptr().unwrap();
        their_fill(&simulator, &hidden, address, LEN, 7);
        drop(exported);
    }));
    let copied = copy(&buffer, &stream);
    let _held = is_held.try_recv().unwrap();
    assert_eq!(copied.read_one(LEN - 1).unwrap(), 7);
    assert_eq!(buffer.host().unwrap()[LEN - 1], 7);
    assert_eq!(buffer.try_host().unwrap()[0], 7, "once is enough");
}

/// The memory is there for the other library when no handle of the library is left.
#[test]
fn an_export_that_outlives_all_handles_keeps_its_memory() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (lent, neighbour) = (buffer(&device), buffer(&device));
    let (exported, address) = lend(&lent, &stream);
    drop((lent, neighbour));
    device.trim();
    drop((device, stream));
    let fill = sim.table().cudaMemsetAsync;
    // SAFETY: the export keeps the memory; the null stream is CUDA's default stream.
    let code = unsafe { fill(address.cast(), 7, LEN, std::ptr::null_mut()) };
    assert_eq!(code, sys::cudaError::cudaSuccess);
    let is_memory = |leak: &Leak| matches!(leak, Leak::Memory { .. });
    assert!(sim.leaks().iter().any(is_memory));
    drop(exported);
}

#[test]
fn an_export_for_reads_is_only_in_the_way_of_writes() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut buffer = buffer(&device);
    let exported = buffer.export(&stream).unwrap();
    device.synchronize().unwrap();
    let waits = || calls(&sim, "cudaDeviceSynchronize");
    let before = waits();
    assert_eq!(buffer.try_host().unwrap()[0], 0);
    drop((copy(&buffer, &stream), exported));
    assert_eq!(buffer.host().unwrap()[0], 0);
    assert_eq!(waits(), before);
    fill(&mut buffer, 1, &stream);
    assert_eq!(waits(), before + 1, "their reads are over");
    assert_eq!(buffer.host().unwrap()[0], 1);
}

#[test]
fn a_fence_is_a_stream() {
    let (sim, device, ours) = simulated(Gpu::H200);
    let [theirs, fence] = [(); 2].map(|()| device.create_stream().unwrap());
    let mut buffer = buffer(&device);
    let waits = || calls(&sim, "cudaDeviceSynchronize");
    for by_event in [false, true] {
        let before = waits();
        let paused = sim.pause();
        // Their work comes after this.
        fill(&mut buffer, 3, &ours);
        let (exported, address) = lend(&buffer, &theirs);
        assert!(Arc::get_mut(&mut buffer).is_none());
        their_fill(&sim, &theirs, address, LEN / 2, 8);
        if by_event {
            fence.wait(&theirs.record().unwrap()).unwrap();
        }
        let after = if by_event { &fence } else { &theirs };
        exported.returned_on(after).unwrap();
        fails!(buffer.try_host(), Error::Busy { .. });
        let copied = copy(&buffer, &ours);
        drop(paused);
        assert_eq!(copied.read_one(5).unwrap(), 8);
        let host = buffer.host().unwrap();
        assert_eq!((host[5], host[LEN - 1]), (8, 3));
        assert_eq!(waits(), before, "by event: {by_event}");
    }
}

/// claim 13: the memory does not go to its next owner while the other library may use it
#[test]
fn memory_of_a_pool_is_not_reused_before_unknown_work_is_over() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let hidden = device.create_stream().unwrap();
    for drop_first in [false, true] {
        let buffer = buffer(&device);
        let place = buffer.as_ptr();
        let (exported, address) = lend(&buffer, &stream);
        let paused = sim.pause();
        their_fill(&sim, &hidden, address, LEN, 77);
        let (mut buffer, mut exported) = (Some(buffer), Some(exported));
        if drop_first {
            drop(buffer.take());
        }
        drop(exported.take());
        drop((buffer, paused));
        let next = UnifiedBuffer::<u8>::from_slice(&device, &[1; LEN]).unwrap();
        assert_eq!(next.as_ptr(), place, "the pool reuses the memory");
        device.synchronize().unwrap();
        assert_eq!(*next.host().unwrap(), [1; LEN]);
    }
}
