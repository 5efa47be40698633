//! The memory of a unified buffer: chosen by its pattern and its size, or requested directly.

use cuda_um::{AccessPattern, Advice, Location, Placement, UnifiedBuffer, UnifiedOptions};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{calls, simulated, unpooled};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn pattern(pattern: AccessPattern) -> UnifiedOptions {
    UnifiedOptions::default().pattern(pattern)
}

#[test]
fn the_pattern_decides_and_says_why() {
    let (sim, device, _) = unpooled(Gpu::H200);
    let placed = |options, len: usize| {
        let buffer = UnifiedBuffer::<u8>::zeroed_with(&device, len, options).unwrap();
        (buffer.placement(), buffer.range_attributes().ok())
    };
    let (general, _) = placed(pattern(AccessPattern::General), KIB);
    assert_eq!(
        (general.placement, general.advice),
        (Placement::Managed, None)
    );
    let text = "managed memory (General), since the pattern says nothing";
    assert_eq!(general.to_string(), text);
    let (read_mostly, given) = placed(pattern(AccessPattern::ReadMostly), KIB);
    assert_eq!(read_mostly.advice, Some(Advice::SetReadMostly));
    assert!(given.unwrap().read_mostly);
    let (resident, given) = placed(pattern(AccessPattern::DeviceResident), KIB);
    let here = Location::Device(0);
    assert_eq!(resident.advice, Some(Advice::SetPreferredLocation(here)));
    assert_eq!(given.unwrap().preferred_location, Some(here));
    for small in [AccessPattern::ReadBack, AccessPattern::StreamOnce] {
        for (bytes, placement, reason) in [
            (1, Placement::Mapped, "over the link takes less time"),
            (64 * MIB, Placement::Mapped, "over the link takes less time"),
            (64 * MIB + 1, Placement::Managed, "copies of so many bytes"),
        ] {
            let (placed, _) = placed(pattern(small), bytes);
            assert_eq!(placed.placement, placement, "{placed}");
            assert!(placed.reason.contains(reason), "{placed}");
        }
    }
    assert_eq!(calls(&sim, "cudaMemAdvise"), 2, "only what a pattern needs");

    let (_sim, device, _) = simulated(Gpu::NoConcurrentAccess);
    let options = pattern(AccessPattern::ReadMostly);
    let buffer = UnifiedBuffer::<u8>::zeroed_with(&device, 3, options).unwrap();
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
