//! Imported memory.

use super::{Bomb, owner};
use cuda_um::{
    Advice, Device, DeviceBuffer, Error, ErrorKind, Location, PinnedBuffer, Placement, Stream,
    UnifiedBuffer, UnifiedOptions,
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{device, is_concurrent, simulated};
use std::ptr::NonNull;

fn pointer<T>(address: *const T) -> NonNull<T> {
    NonNull::new(address.cast_mut()).unwrap()
}

macro_rules! of_each_kind {
    ($($test:ident: $buffer:ident, $theirs:expr;)*) => {$(
        #[test]
        fn $test() {
            let (_sim, device, stream) = device();
            let (counted, drops) = owner();
            let theirs = ($theirs)(&device);
            device.synchronize().unwrap();
            let address = pointer(theirs.as_view().as_ptr());
            // SAFETY: the owner keeps the memory, and nothing else uses it.
            let mut ours = unsafe { $buffer::from_foreign(&device, address, 1000, (theirs, counted)) }.unwrap();
            assert_eq!(ours.as_view().as_ptr(), address.as_ptr().cast_const());
            assert_eq!(ours.to_vec().unwrap(), [1; 1000]);
            ours.fill_on(5, &stream).unwrap();
            ours.copy_from_host_at(1, &[6, 7]).unwrap();
            ours.copy_within_on(..3, 997, &stream).unwrap();
            assert_eq!(ours.to_vec().unwrap()[997..], [5, 6, 7]);
            let mut copy = $buffer::<u32>::zeroed(&device, 1000).unwrap();
            stream.copy(&ours, &mut copy).unwrap();
            assert_eq!(copy.to_vec().unwrap()[999], 7);
            assert_eq!(drops(), 0);
            drop(ours);
            device.synchronize().unwrap();
            device.runtime().reclaim().unwrap();
            assert_eq!(drops(), 1);
        }
    )*};
}
of_each_kind! {
    managed_memory_is_a_unified_buffer: UnifiedBuffer, managed;
    device_memory_is_a_device_buffer: DeviceBuffer, |device| DeviceBuffer::from_slice(device, &[1u32; 1000]).unwrap();
    pinned_memory_is_a_pinned_buffer: PinnedBuffer, |device| PinnedBuffer::from_slice(device, &[1u32; 1000]).unwrap();
}

/// Managed memory on every GPU that has it: some have mapped memory by default.
fn managed(device: &Device) -> UnifiedBuffer<u32> {
    let options = UnifiedOptions::default().placement(Placement::Managed);
    UnifiedBuffer::from_slice_with(device, &[1u32; 1000], options).unwrap()
}

/// claim 7
#[test]
fn the_owner_of_memory_stays_while_work_uses_it() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (counted, drops) = owner();
    let theirs = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let address = pointer(theirs.as_ptr());
    // SAFETY: the owner keeps the memory, and nothing else uses it.
    let mut ours =
        unsafe { UnifiedBuffer::from_foreign(&device, address, 1000, (theirs, counted)) }.unwrap();
    let paused = sim.pause();
    ours.fill_on(1, &stream).unwrap();
    drop(ours);
    assert_eq!(drops(), 0, "the fill has not run");
    drop(paused);
    device.runtime().reclaim().unwrap();
    assert_eq!(drops(), 1);
    // Idle memory goes back at once, although other work runs.
    let (counted, drops) = owner();
    let theirs = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut other = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let address = pointer(theirs.as_ptr());
    // SAFETY: as above.
    let idle =
        unsafe { DeviceBuffer::from_foreign(&device, address, 1000, (theirs, counted)) }.unwrap();
    let paused = sim.pause();
    other.fill_on(1, &stream).unwrap();
    drop(idle);
    assert_eq!(drops(), 1);
    drop(paused);
}

/// Calls everything that writes, and returns the errors.
fn writes(buffer: &mut UnifiedBuffer<u32>, stream: &Stream) -> Vec<Error> {
    let same = UnifiedBuffer::<u32>::zeroed(buffer.device(), 8).unwrap();
    let len = buffer.len();
    vec![
        buffer.fill_on(1, stream).unwrap_err(),
        buffer.fill(0).unwrap_err(),
        buffer.copy_from_host(&vec![0; len]).unwrap_err(),
        buffer.write_one(0, 1).unwrap_err(),
        buffer.copy_within_on(..1, 1, stream).unwrap_err(),
        buffer
            .host_overwrite(.., |_, slots| slots.fill_with(|_| 1))
            .unwrap_err(),
        buffer.host_mut().map(drop).unwrap_err(),
        buffer.try_host_mut().map(drop).unwrap_err(),
        stream.copy_range(&same, .., buffer, 0).unwrap_err(),
        // SAFETY: the closure is not called.
        unsafe { stream.enqueue_foreign((&mut *buffer,), |_| -> () { unreachable!() }) }
            .unwrap_err(),
    ]
}

/// claim 10
#[test]
fn each_write_to_a_read_only_import_is_an_error_before_any_call() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let theirs = UnifiedBuffer::from_slice(&device, &[4u32; 1000]).unwrap();
    device.synchronize().unwrap();
    let address = pointer(theirs.as_ptr());
    // SAFETY: the owner keeps the memory, and nothing writes it.
    let ours = unsafe { UnifiedBuffer::from_foreign(&device, address, 1000, theirs) };
    let mut ours = ours.unwrap().read_only();
    let same = UnifiedBuffer::<u32>::zeroed(&device, 8).unwrap();
    device.synchronize().unwrap();
    sim.clear_trace();
    for error in writes(&mut ours, &stream) {
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let wrote = [
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "cuMemsetD32Async",
        "cudaMallocFromPoolAsync",
    ];
    // The buffer of `writes` itself is filled with zeros, and dropped.
    let calls: usize = wrote
        .iter()
        .map(|call| cuda_um_testkit::calls(&sim, call))
        .sum();
    assert!(calls <= 1, "{:?}", sim.trace());
    drop(same);
    // Reads, prefetches and advice work.
    assert_eq!(ours.to_vec().unwrap(), [4; 1000]);
    assert_eq!(ours.host().unwrap()[7], 4);
    ours.prefetch_on(Location::Host, &stream).unwrap();
    ours.advise(Advice::SetReadMostly).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    stream.copy(&ours, &mut copy).unwrap();
    assert_eq!(copy.to_vec().unwrap(), [4; 1000]);
}

#[test]
fn imported_managed_memory_migrates() {
    let (_sim, device, stream) = device();
    let theirs = managed(&device);
    device.synchronize().unwrap();
    let address = pointer(theirs.as_ptr());
    // SAFETY: the owner keeps the memory, and nothing else uses it.
    let mut ours = unsafe { UnifiedBuffer::from_foreign(&device, address, 1000, theirs) }.unwrap();
    assert!(ours.is_managed());
    if is_concurrent(&device) {
        ours.prefetch_on(Location::Host, &stream).unwrap();
        ours.advise(Advice::SetPreferredLocation(Location::Host))
            .unwrap();
        ours.prefetch_on(&device, &stream).unwrap();
    }
    ours.host_mut().unwrap()[9] = 3;
    let part = ours.view(9..11).unwrap().to_vec().unwrap();
    assert_eq!(part, [3, 1]);
    ours.close().unwrap();
}

#[test]
fn an_owner_of_memory_that_panics_breaks_nothing() {
    let (_sim, device, stream) = device();
    let close = |buffer: DeviceBuffer<u8>| buffer.close().unwrap();
    for end in [close, |buffer| drop(buffer)] {
        let (counted, drops) = owner();
        let theirs = DeviceBuffer::<u8>::zeroed(&device, 100).unwrap();
        device.synchronize().unwrap();
        let address = pointer(theirs.as_ptr());
        let owner = (Bomb(counted), theirs);
        // SAFETY: the owner keeps the memory, and nothing else uses it.
        let mut ours = unsafe { DeviceBuffer::from_foreign(&device, address, 100, owner) }.unwrap();
        ours.fill_on(1, &stream).unwrap();
        end(ours);
        device.runtime().reclaim().unwrap();
        assert_eq!(drops(), 1);
    }
}
