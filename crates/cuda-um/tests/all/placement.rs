//! Advice, prefetch, and CUDA's attributes of a range.

use cuda_um::{Advice, Error, Location, UnifiedBuffer};
use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_testkit::{Add, device, simulated, simulated_with};

#[test]
fn advice_is_read_back() {
    let (_sim, device, stream) = device();
    if !cuda_um_testkit::is_concurrent(&device) {
        return;
    }
    let here = Location::from(&device);
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    let fresh = buffer.range_attributes().unwrap();
    assert!(
        !fresh.read_mostly && fresh.preferred_location.is_none() && fresh.accessed_by.is_empty(),
        "{fresh:?}"
    );

    buffer.advise(Advice::SetReadMostly).unwrap();
    assert!(buffer.range_attributes().unwrap().read_mostly);
    buffer.advise(Advice::UnsetReadMostly).unwrap();
    for location in [here, Location::Host] {
        buffer
            .advise(Advice::SetPreferredLocation(location))
            .unwrap();
        assert_eq!(
            buffer.range_attributes().unwrap().preferred_location,
            Some(location)
        );
        buffer.advise(Advice::SetAccessedBy(location)).unwrap();
        buffer.prefetch_on(location, &stream).unwrap();
        assert_eq!(
            buffer.range_attributes().unwrap().last_prefetch,
            Some(location)
        );
    }
    let mut by = buffer.range_attributes().unwrap().accessed_by;
    by.sort_by_key(|location| *location == Location::Host);
    assert_eq!(by, [here, Location::Host]);
    buffer.advise(Advice::UnsetAccessedBy(here)).unwrap();
    buffer
        .advise(Advice::UnsetAccessedBy(Location::Host))
        .unwrap();
    buffer.advise(Advice::UnsetPreferredLocation).unwrap();
    let last = buffer.range_attributes().unwrap();
    assert!(
        !last.read_mostly && last.preferred_location.is_none() && last.accessed_by.is_empty(),
        "{last:?}"
    );
}

#[test]
fn advice_for_a_part_leaves_the_rest() {
    let (_sim, device, stream) = device();
    if !cuda_um_testkit::is_concurrent(&device) {
        return;
    }
    // Each half is far larger than a page of any size.
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 4 << 20).unwrap();
    let half = buffer.len() / 2;
    buffer
        .view(..half)
        .unwrap()
        .advise(Advice::SetReadMostly)
        .unwrap();
    assert!(
        !buffer.range_attributes().unwrap().read_mostly,
        "not all pages are"
    );
    let rest = buffer.view(half..).unwrap();
    rest.prefetch_on(Location::Host, &stream).unwrap();
    rest.advise(Advice::SetReadMostly).unwrap();
    let all = buffer.range_attributes().unwrap();
    assert!(all.read_mostly && all.last_prefetch != Some(Location::Host));
    let first = buffer.view(..half).unwrap();
    first.prefetch_on(Location::Host, &stream).unwrap();
    assert_eq!(
        buffer.range_attributes().unwrap().last_prefetch,
        Some(Location::Host)
    );

    let error = buffer.view(half..=buffer.len()).unwrap_err();
    assert!(matches!(error, Error::RangeOutOfBounds { .. }), "{error}");
    buffer
        .view(7..7)
        .unwrap()
        .advise(Advice::SetReadMostly)
        .unwrap();
}

#[test]
fn a_prefetched_buffer_does_not_fault() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    let count = buffer.len();
    for prefetched in [false, true] {
        buffer.host_mut().unwrap().fill(1);
        if prefetched {
            buffer.prefetch_on(&device, &stream).unwrap();
        }
        stream.synchronize().unwrap();
        sim.reset_counters();
        add.launch(&stream, count, (&mut buffer, count as u32, 1u32))
            .unwrap();
        stream.synchronize().unwrap();
        assert_eq!(
            sim.counters().gpu_faults == 0,
            prefetched,
            "{:?}",
            sim.counters()
        );
        sim.reset_counters();
        if prefetched {
            buffer.prefetch_on(Location::Host, &stream).unwrap();
        }
        assert!(buffer.host().unwrap().iter().all(|value| *value == 2));
        assert_eq!(
            sim.counters().cpu_faults == 0,
            prefetched,
            "{:?}",
            sim.counters()
        );
    }
}

#[test]
fn numa_nodes_need_a_newer_runtime() {
    for (cuda, known) in [
        (CudaVersion::V11_8, false),
        (CudaVersion::V12_2, true),
        (CudaVersion::V13_0, true),
    ] {
        let (_sim, device, stream) = simulated_with(|builder| builder.cuda(cuda));
        let buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
        let outcome = buffer.prefetch_on(Location::HostNuma(0), &stream);
        if known {
            outcome.unwrap();
            assert_eq!(
                buffer.range_attributes().unwrap().last_prefetch,
                Some(Location::HostNuma(0))
            );
            buffer
                .advise(Advice::SetPreferredLocation(Location::HostNuma(0)))
                .unwrap();
            assert_eq!(
                buffer.range_attributes().unwrap().preferred_location,
                Some(Location::HostNuma(0))
            );
        } else {
            let at = Location::HostNuma(0);
            let advised = buffer.advise(Advice::SetPreferredLocation(at));
            for outcome in [outcome.unwrap(), advised.unwrap()] {
                let error = outcome.require().unwrap_err();
                assert_eq!(
                    error.to_string(),
                    "memory at host NUMA node 0 is not supported: it needs CUDA 12.2 or newer, and there is CUDA 11.8"
                );
            }
        }
    }
}
