//! Copies, migrations and duplicates between two devices, beside the copies between devices and the driver's faults.
#![allow(unsafe_code, reason = "calls CUDA's functions")]

use super::{Machine, Times};
use anyhow::{Result, ensure};
use cuda_um::{Advice, Device, DeviceBuffer, Devices, Location, UnifiedBuffer};
use std::cell::RefCell;
use um_kernels::Reduce;

const SIZES: [usize; 3] = [16 << 20, 64 << 20, 256 << 20];
const QUICK: usize = 16 << 20;

/// Returns the sizes of a run, and says what is left out.
pub(super) fn sizes(machine: &Machine) -> impl Iterator<Item = usize> + use<'_> {
    let (run, left): (Vec<usize>, Vec<usize>) =
        (SIZES.iter()).partition(|size| !machine.quick || **size <= QUICK);
    for size in left {
        println!("skipped: {} MiB (--quick)", size >> 20);
    }
    run.into_iter()
}

/// Copies and migrations from the first device to the second.
pub(super) fn migrations(machine: &Machine) -> Result<()> {
    let Some(devices) = machine.two() else {
        return Ok(());
    };
    let devices = Devices::of(devices)?;
    let _access = devices.enable_peer_access()?;
    let (near, far) = (&devices[0], &devices[1]);
    let table = Times::new("of the peer copy");
    for bytes in sizes(machine) {
        // What the pools keep of the last size is not freed while this one is measured.
        machine.trim()?;
        let values: Vec<u8> = (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect();
        let stream = &machine.streams[1];

        let source = DeviceBuffer::from_slice(near, &values)?;
        let target = RefCell::new(DeviceBuffer::<u8>::zeroed(far, bytes)?);
        let moved = RefCell::new(DeviceBuffer::from_slice(near, &values)?);
        let managed = RefCell::new(UnifiedBuffer::from_slice(near, &values)?);
        let prefetched = UnifiedBuffer::from_slice(near, &values)?;
        let (to, from) = (
            target.borrow().as_view().as_ptr(),
            source.as_view().as_ptr(),
        );
        machine.synchronize()?;

        let mut raw = || -> Result<()> {
            // SAFETY: two buffers of so many bytes, which nothing else uses.
            let code = unsafe {
                (machine.table.cudaMemcpyPeerAsync)(
                    to.cast_mut().cast(),
                    1,
                    from.cast(),
                    0,
                    bytes,
                    stream.as_raw(),
                )
            };
            ensure!(code.0 == 0, "cudaMemcpyPeerAsync: error {}", code.0);
            stream.synchronize()?;
            Ok(())
        };
        let mut copy = || -> Result<()> {
            stream.copy(&source, &mut *target.borrow_mut())?;
            Ok(stream.synchronize()?)
        };
        let mut migrate_device = || -> Result<()> {
            moved.borrow_mut().migrate(far, stream)?;
            machine.synchronize()
        };
        let mut prefetch = || -> Result<()> {
            prefetched
                .prefetch_on(Location::from(far), stream)?
                .require()?;
            Ok(stream.synchronize()?)
        };
        let mut migrate = || -> Result<()> {
            managed.borrow_mut().migrate(far, stream)?.require()?;
            machine.synchronize()
        };
        let home = |contender: usize| -> Result<()> {
            match contender {
                2 => moved.borrow_mut().migrate(near, &machine.streams[0])?,
                3 => drop(prefetched.prefetch_on(Location::from(near), &machine.streams[0])?),
                4 => drop(managed.borrow_mut().migrate(near, &machine.streams[0])?),
                _ => {}
            }
            Ok(())
        };
        let times = machine.medians(
            home,
            [
                &mut raw,
                &mut copy,
                &mut migrate_device,
                &mut prefetch,
                &mut migrate,
            ],
        )?;
        let names = [
            "cudaMemcpyPeerAsync",
            "Stream::copy",
            "DeviceBuffer::migrate",
            "prefetch_on",
            "UnifiedBuffer::migrate",
        ];
        table.rows(bytes, names, times);
        let found = [
            target.borrow().to_vec()?,
            moved.borrow().to_vec()?,
            managed.borrow().to_vec()?,
            prefetched.to_vec()?,
        ];
        ensure!(found.iter().all(|it| *it == values), "WRONG RESULT");
    }
    Ok(())
}

/// Duplicates of managed memory of the first device on the second: by the library, and by faults of a kernel.
pub(super) fn duplicates(machine: &Machine) -> Result<()> {
    let Some(devices) = machine.two() else {
        return Ok(());
    };
    let devices = Devices::of(devices)?;
    let _access = devices.enable_peer_access()?;
    let (near, far) = (&devices[0], &devices[1]);
    let sums = Reduce::load(far)?;
    let table = Times::new("of the faults");
    for bytes in sizes(machine) {
        let values: Vec<f32> = (0..bytes / 4).map(|at| (at % 7) as f32).collect();
        let memory = UnifiedBuffer::from_slice(near, &values)?;
        let sum = RefCell::new(DeviceBuffer::<f32>::zeroed(far, 1)?);
        let stream = &far.default_stream()?;
        let read = || -> Result<()> {
            sums.sum(stream, &memory, &mut *sum.borrow_mut())?;
            Ok(stream.synchronize()?)
        };
        read()?;
        let expected = sum.borrow().read_one(0)?;
        let mut faults = || {
            memory.advise(Advice::SetReadMostly)?.require()?;
            sums.sum(stream, &memory, &mut *sum.borrow_mut())?;
            Ok(stream.synchronize()?)
        };
        let mut duplicate = || {
            memory.duplicate(&devices)?.require()?;
            sums.sum(stream, &memory, &mut *sum.borrow_mut())?;
            Ok(stream.synchronize()?)
        };
        let home = |_| -> Result<()> {
            memory.advise(Advice::UnsetReadMostly)?.require()?;
            memory
                .prefetch_on(Location::Host, &machine.streams[0])?
                .require()?;
            memory.prefetch_on(Location::from(near), &machine.streams[0])?;
            Ok(())
        };
        let times = machine.medians(home, [&mut faults, &mut duplicate])?;
        table.rows(
            bytes,
            ["a kernel that faults", "duplicate, then the kernel"],
            times,
        );
        ensure!(sum.borrow().read_one(0)? == expected, "WRONG RESULT");
    }
    Ok(())
}

/// Pinned memory to the first device and back, alone and through its neighbours.
pub(super) fn uploads(machine: &Machine) -> Result<()> {
    let devices = Devices::of(machine.devices.iter().cloned())?;
    if machine.two().is_none() {
        return Ok(());
    }
    let (device, stream): (&Device, _) = (&devices[0], &machine.streams[0]);
    let table = Times::new("of its own link");
    for bytes in sizes(machine) {
        let values: Vec<u8> = (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect();
        let source = cuda_um::PinnedBuffer::from_slice(device, &values)?;
        let back = RefCell::new(cuda_um::PinnedBuffer::<u8>::zeroed(device, bytes)?);
        let target = RefCell::new(DeviceBuffer::<u8>::zeroed(device, bytes)?);
        let mut up = || -> Result<()> {
            stream.copy(&source, &mut *target.borrow_mut())?;
            Ok(stream.synchronize()?)
        };
        let mut down = || -> Result<()> {
            stream.copy(&*target.borrow(), &mut *back.borrow_mut())?;
            Ok(stream.synchronize()?)
        };
        let [own_up, own_down] = machine.medians(|_| Ok(()), [&mut up, &mut down])?;
        let access = devices.enable_peer_access()?;
        let [up, down] = machine.medians(|_| Ok(()), [&mut up, &mut down])?;
        access.close()?;
        table.rows(bytes, ["upload", "upload, with neighbours"], [own_up, up]);
        table.rows(
            bytes,
            ["download", "download, with neighbours"],
            [own_down, down],
        );
        ensure!(back.borrow().to_vec()? == values, "WRONG RESULT");
    }
    Ok(())
}
