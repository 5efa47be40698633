//! The memory of a unified buffer: chosen by its pattern and its size, or requested directly.

use cuda_um::{
    AccessPattern, Advice, Error, Location, Placement, UnifiedBuffer, UnifiedOptions,
    managed::PrefetchBatch,
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{calls, device, simulated, unpooled};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn pattern(pattern: AccessPattern) -> UnifiedOptions {
    UnifiedOptions::default().pattern(pattern)
}

fn asked(placement: Placement) -> UnifiedOptions {
    UnifiedOptions::default().placement(placement)
}

#[test]
fn the_pattern_decides_and_says_why() {
    let (sim, device, _) = unpooled(Gpu::H200);
    let placed = |options, len: usize| {
        let buffer = UnifiedBuffer::<u8>::zeroed_with(&device, len, options).unwrap();
        buffer.placement()
    };
    let general = placed(pattern(AccessPattern::General), KIB);
    assert_eq!(
        (general.placement, general.advice),
        (Placement::Managed, None)
    );
    assert_eq!(
        general.to_string(),
        "managed memory (General), since the pattern says nothing"
    );
    let read_mostly = placed(pattern(AccessPattern::ReadMostly), KIB);
    assert_eq!(read_mostly.advice, Some(Advice::SetReadMostly));
    let resident = placed(pattern(AccessPattern::DeviceResident), KIB);
    let preferred = Advice::SetPreferredLocation(Location::Device(0));
    assert_eq!(resident.advice, Some(preferred));
    for small in [AccessPattern::ReadBack, AccessPattern::StreamOnce] {
        for (bytes, placement, reason) in [
            (1, Placement::Mapped, "over the link takes less time"),
            (64 * MIB, Placement::Mapped, "over the link takes less time"),
            (64 * MIB + 1, Placement::Managed, "copies of so many bytes"),
        ] {
            let placed = placed(pattern(small), bytes);
            assert_eq!(placed.placement, placement, "{placed}");
            assert!(placed.reason.contains(reason), "{placed}");
        }
    }
    let asked = placed(asked(Placement::Mapped), KIB);
    assert_eq!(
        asked.to_string(),
        "mapped pinned memory (General), as asked for"
    );
    assert_eq!(
        calls(&sim, "cudaMemAdvise"),
        2,
        "what a pattern needs is advised"
    );
}

#[test]
fn the_advice_of_a_pattern_is_really_given() {
    let (_sim, device, _) = device();
    if !cuda_um_testkit::is_concurrent(&device) {
        return;
    }
    let buffer =
        UnifiedBuffer::<u8>::zeroed_with(&device, 4096, pattern(AccessPattern::ReadMostly))
            .unwrap();
    assert!(buffer.range_attributes().unwrap().read_mostly);
    let buffer = UnifiedBuffer::<u8>::from_slice_with(
        &device,
        &[7; 4096],
        pattern(AccessPattern::DeviceResident),
    )
    .unwrap();
    assert_eq!(
        buffer.range_attributes().unwrap().preferred_location,
        Some(Location::Device(0))
    );
}

#[test]
fn nothing_of_mapped_memory_migrates() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mapped =
        UnifiedBuffer::<u32>::zeroed_with(&device, 1000, asked(Placement::Mapped)).unwrap();
    let managed = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    sim.clear_trace();
    mapped.prefetch_on(&device, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaMemPrefetchAsync"), 0);
    let mut batch = PrefetchBatch::new();
    batch.add(&mapped).add(&managed);
    assert_eq!(batch.prefetch_on(Location::Host, &stream).unwrap().calls, 1);
    for error in [
        mapped
            .advise(Advice::SetReadMostly)
            .unwrap()
            .require()
            .unwrap_err(),
        mapped.range_attributes().unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(matches!(error, Error::NotSupported { .. }), "{text}");
        assert!(
            text.contains("mapped pinned memory (General), as asked for"),
            "{text}"
        );
    }
    assert_eq!(mapped.residency().unwrap(), Some(Location::Host));
}

#[test]
fn without_concurrent_access_the_pattern_gives_no_advice() {
    let (_sim, device, _) = simulated(Gpu::NoConcurrentAccess);
    let buffer =
        UnifiedBuffer::<u8>::zeroed_with(&device, 3, pattern(AccessPattern::ReadMostly)).unwrap();
    let placed = buffer.placement();
    assert_eq!(
        (placed.placement, placed.advice),
        (Placement::Managed, None)
    );
    assert!(
        placed.reason.contains("no concurrent managed access"),
        "{placed}"
    );
}

#[test]
fn read_mostly_waits_for_the_copy_before() {
    let (sim, device, _) = simulated(Gpu::H200);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    buffer.copy_from_host(&[7; 1000]).unwrap();
    std::thread::scope(|scope| {
        let advised = scope.spawn(|| buffer.advise(Advice::SetReadMostly));
        // An arbitrary delay.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!advised.is_finished(), "the copy is still held");
        drop(paused);
        advised.join().unwrap().unwrap();
    });
    assert!(buffer.range_attributes().unwrap().read_mostly);
    assert_eq!(buffer.host().unwrap()[999], 7);
}
