//! Copies: in stream order, and through the ring of pinned memory.

use super::{COUNT, MANY};
use crate::world::World;
use cuda_um::{DeviceBuffer, Result, UnifiedBuffer, buffer::TransferOptions};

pub fn small_ring() -> TransferOptions {
    TransferOptions::default().threads(2).ring_bytes(64 << 10)
}

pub fn numbers() -> Vec<u32> {
    (0..MANY as u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect()
}

pub fn staged_copies(world: &World) -> Result<()> {
    let device = &world.here().device;
    device.set_transfer_options(small_ring());
    let source = numbers();
    let unified = UnifiedBuffer::from_slice(device, &source)?;
    assert!(unified.to_vec()? == source);
    let mut memory = DeviceBuffer::<u32>::zeroed(device, MANY)?;
    memory.copy_from_host(&source)?;
    let mut back = vec![0; MANY];
    memory.copy_to_host(&mut back)?;
    assert!(back == source);
    device.set_transfer_options(small_ring());
    Ok(())
}

/// From 2 MiB on, a copy uses more than one thread.
pub fn copies_on_two_threads(world: &World) -> Result<()> {
    const COUNT: usize = (2 << 20) / 4;
    let device = &world.here().device;
    let ring = TransferOptions::default().threads(2).ring_bytes(2 << 20);
    device.set_transfer_options(ring);
    let copies = || {
        let source = vec![7u32; COUNT];
        let mut memory = DeviceBuffer::<u32>::zeroed(device, COUNT)?;
        memory.copy_from_host(&source)?;
        let mut back = vec![0; COUNT];
        memory.copy_to_host(&mut back)?;
        assert!(back == source);
        Ok(())
    };
    let outcome = copies();
    // Waits for the thread that allocates the pinned memory, also after an error: it may be that thread's call that failed.
    device.trim();
    outcome
}

pub fn async_copies(world: &World) -> Result<()> {
    let (device, stream, add) = world.parts();
    device.set_transfer_options(small_ring());
    let source = numbers();
    let mut back = vec![0; MANY];
    let mut memory = DeviceBuffer::<u32>::zeroed(device, MANY)?;
    pollster::block_on(memory.copy_from_host_async(&source))?;
    pollster::block_on(memory.copy_to_host_async(&mut back))?;
    assert!(back == source);
    let mut unified = UnifiedBuffer::<u32>::zeroed(device, COUNT)?;
    add.try_run(stream, &mut unified, COUNT, 9)?;
    assert_eq!(pollster::block_on(unified.host_async())?[..], [9; COUNT]);
    Ok(())
}

/// Directly, in pieces, and through other memory.
pub fn copies_within(world: &World) -> Result<()> {
    let (device, stream, _) = world.parts();
    let mut expected = numbers();
    let mut memory = DeviceBuffer::from_slice(device, &expected)?;
    for (range, to) in [
        (0..MANY / 2, MANY / 2),
        (0..MANY * 2 / 3, MANY / 3),
        (1..MANY, 0),
    ] {
        memory.copy_within_on(range.clone(), to, stream)?;
        expected.copy_within(range, to);
    }
    assert!(memory.to_vec()? == expected);
    Ok(())
}
