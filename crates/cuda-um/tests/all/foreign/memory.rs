//! Imported memory.

use super::{Bomb, at, owner};
use cuda_um::{
    Advice, Device, DeviceBuffer, Error, ErrorKind, Location, PinnedBuffer, Placement,
    UnifiedBuffer, UnifiedOptions,
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{device, fails, simulated};
use std::sync::Arc;

/// Managed memory on every GPU that has it: some have mapped memory by default.
fn managed(device: &Device) -> UnifiedBuffer<u32> {
    let options = UnifiedOptions::default().placement(Placement::Managed);
    UnifiedBuffer::from_slice_with(device, &[1u32; 1000], options).unwrap()
}

#[test]
fn memory_of_each_kind_is_a_buffer_of_its_kind() {
    let (_sim, device, stream) = device();
    macro_rules! of_kind {
        ($buffer:ident, $theirs:expr) => {{
            let (counted, drops) = owner();
            let theirs = $theirs;
            device.synchronize().unwrap();
            let address = at(theirs.as_view().as_ptr());
            let owner = (theirs, counted);
            // SAFETY: the owner keeps the memory, and nothing else uses it.
            let ours = unsafe { $buffer::from_foreign(&device, address, 1000, owner) };
            let mut ours = ours.unwrap();
            assert_eq!(ours.as_view().as_ptr(), address.as_ptr().cast_const());
            assert_eq!(ours.to_vec().unwrap(), [1; 1000]);
            ours.fill_on(5, &stream).unwrap();
            ours.copy_from_host_at(1, &[6, 7]).unwrap();
            ours.copy_within_on(..3, 997, &stream).unwrap();
            let mut copy = $buffer::<u32>::zeroed(&device, 1000).unwrap();
            stream.copy(&ours, &mut copy).unwrap();
            assert_eq!(copy.to_vec().unwrap()[996..], [5, 5, 6, 7]);
            assert_eq!(drops(), 0);
            drop(ours);
            device.synchronize().unwrap();
            device.runtime().reclaim().unwrap();
            assert_eq!(drops(), 1);
        }};
    }
    of_kind!(UnifiedBuffer, managed(&device));
    of_kind!(
        DeviceBuffer,
        DeviceBuffer::from_slice(&device, &[1u32; 1000]).unwrap()
    );
    of_kind!(
        PinnedBuffer,
        PinnedBuffer::from_slice(&device, &[1u32; 1000]).unwrap()
    );
    // No elements, no memory.
    let (counted, drops) = owner();
    // SAFETY: no elements are accessed.
    let none = unsafe { PinnedBuffer::from_foreign(&device, at(&0u32), 0, counted) };
    assert!(none.unwrap().is_empty());
    assert_eq!(drops(), 1);
}

/// claim 7: idle memory goes back at once, although other work runs
#[test]
fn the_owner_of_memory_stays_while_work_uses_it() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut other = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    for in_use in [true, false] {
        let (counted, drops) = owner();
        let theirs = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
        device.synchronize().unwrap();
        let (address, owner) = (at(theirs.as_ptr()), (theirs, counted));
        // SAFETY: the owner keeps the memory, and nothing else uses it.
        let ours = unsafe { DeviceBuffer::from_foreign(&device, address, 1000, owner) };
        let mut ours = ours.unwrap();
        let paused = sim.pause();
        let used = if in_use { &mut ours } else { &mut other };
        used.fill_on(1, &stream).unwrap();
        drop(ours);
        assert_eq!(drops(), usize::from(!in_use));
        drop(paused);
        device.runtime().reclaim().unwrap();
        assert_eq!(drops(), 1);
    }
}

/// claim 10
#[test]
fn each_write_to_a_read_only_import_is_an_error_before_any_call() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let theirs = UnifiedBuffer::from_slice(&device, &[4u32; 1000]).unwrap();
    let same = UnifiedBuffer::<u32>::zeroed(&device, 8).unwrap();
    device.synchronize().unwrap();
    let address = at(theirs.as_ptr());
    // SAFETY: the owner keeps the memory, and nothing writes it.
    let ours = unsafe { UnifiedBuffer::from_foreign(&device, address, 1000, theirs) };
    let mut ours = ours.unwrap().read_only();
    sim.clear_trace();
    for refused in [
        ours.fill_on(1, &stream),
        ours.fill(0),
        ours.copy_from_host(&[0; 1000]),
        ours.write_one(0, 1),
        ours.copy_within_on(..1, 1, &stream),
        ours.host_overwrite(.., |_, slots| slots.fill_with(|_| 1)),
        ours.host_mut().map(drop),
        ours.try_host_mut().map(drop),
        stream.copy_range(&same, .., &mut ours, 0),
        // SAFETY: the closure is not called.
        unsafe { stream.enqueue_foreign((&mut ours,), |_| -> () { unreachable!() }) },
    ] {
        assert_eq!(
            refused.as_ref().unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        fails!(refused, Error::ReadOnly { .. });
    }
    assert!(sim.trace().is_empty(), "{:?}", sim.trace());
    // Reads, prefetches, advice and exports to be read work.
    assert_eq!(ours.to_vec().unwrap(), [4; 1000]);
    assert_eq!(ours.host().unwrap()[7], 4);
    ours.prefetch_on(Location::Host, &stream).unwrap();
    ours.advise(Advice::SetReadMostly).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    stream.copy(&ours, &mut copy).unwrap();
    assert_eq!(copy.to_vec().unwrap(), [4; 1000]);
    drop(Arc::new(ours).export(&stream).unwrap());
}

#[test]
fn an_owner_of_memory_or_of_a_stream_that_panics_breaks_nothing() {
    let (_sim, device, _) = device();
    let close = |buffer: DeviceBuffer<u8>| buffer.close().unwrap();
    for end in [close, |buffer| drop(buffer)] {
        let [(of_memory, memory), (of_stream, stream)] = [owner(), owner()];
        let theirs = device.create_stream().unwrap();
        // SAFETY: `theirs` lives longer.
        let adopted = unsafe { device.adopt_stream(theirs.as_raw(), Bomb(of_stream)) }.unwrap();
        let memory_of_theirs = DeviceBuffer::<u8>::zeroed(&device, 100).unwrap();
        device.synchronize().unwrap();
        let address = at(memory_of_theirs.as_ptr());
        let owner = (Bomb(of_memory), memory_of_theirs);
        // SAFETY: the owner keeps the memory, and nothing else uses it.
        let mut ours = unsafe { DeviceBuffer::from_foreign(&device, address, 100, owner) }.unwrap();
        ours.fill_on(1, &adopted).unwrap();
        drop(adopted);
        assert_eq!(ours.to_vec().unwrap(), [1; 100]);
        end(ours);
        device.synchronize().unwrap();
        device.runtime().reclaim().unwrap();
        assert_eq!([memory(), stream()], [1, 1]);
    }
}
