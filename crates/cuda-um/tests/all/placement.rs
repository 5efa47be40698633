//! Advice, prefetch, and CUDA's attributes of a range.

use cuda_um::managed::RangeAttributes;
use cuda_um::{Advice, Location, UnifiedBuffer};
use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_testkit::{Add, device, is_concurrent, simulated, simulated_with};

fn of(buffer: &UnifiedBuffer<u32>) -> RangeAttributes {
    buffer.range_attributes().unwrap()
}

fn is_unadvised(found: &RangeAttributes) -> bool {
    !found.read_mostly && found.preferred_location.is_none() && found.accessed_by.is_empty()
}

#[test]
fn advice_is_read_back() {
    let (_sim, device, stream) = device();
    if !is_concurrent(&device) {
        return;
    }
    let here = Location::from(&device);
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    let advise = |advice| buffer.advise(advice).unwrap();
    assert!(is_unadvised(&of(&buffer)), "{:?}", of(&buffer));
    advise(Advice::SetReadMostly);
    assert!(of(&buffer).read_mostly);
    advise(Advice::UnsetReadMostly);
    for location in [here, Location::Host] {
        advise(Advice::SetPreferredLocation(location));
        advise(Advice::SetAccessedBy(location));
        buffer.prefetch_on(location, &stream).unwrap();
        let found = of(&buffer);
        let places = [found.preferred_location, found.last_prefetch];
        assert_eq!(places, [Some(location); 2]);
    }
    let mut by = of(&buffer).accessed_by;
    by.sort_by_key(|location| *location == Location::Host);
    assert_eq!(by, [here, Location::Host]);
    advise(Advice::UnsetAccessedBy(here));
    advise(Advice::UnsetAccessedBy(Location::Host));
    advise(Advice::UnsetPreferredLocation);
    assert!(is_unadvised(&of(&buffer)), "{:?}", of(&buffer));
}

#[test]
fn advice_for_a_part_leaves_the_rest() {
    let (_sim, device, stream) = device();
    if !is_concurrent(&device) {
        return;
    }
    // Each half is far larger than a page of any size.
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 4 << 20).unwrap();
    let half = buffer.len() / 2;
    let [first, rest] = [0..half, half..2 * half].map(|part| buffer.view(part).unwrap());
    first.advise(Advice::SetReadMostly).unwrap();
    assert!(!of(&buffer).read_mostly, "not all pages are");
    rest.prefetch_on(Location::Host, &stream).unwrap();
    rest.advise(Advice::SetReadMostly).unwrap();
    let all = of(&buffer);
    assert!(all.read_mostly && all.last_prefetch != Some(Location::Host));
    first.prefetch_on(Location::Host, &stream).unwrap();
    assert_eq!(of(&buffer).last_prefetch, Some(Location::Host));
    let none = buffer.view(7..7).unwrap();
    none.advise(Advice::SetReadMostly).unwrap();
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
        add.run(&stream, &mut buffer, count, 1);
        stream.synchronize().unwrap();
        assert_eq!(sim.counters().gpu_faults == 0, prefetched);
        sim.reset_counters();
        if prefetched {
            buffer.prefetch_on(Location::Host, &stream).unwrap();
        }
        assert!(buffer.host().unwrap().iter().all(|value| *value == 2));
        assert_eq!(sim.counters().cpu_faults == 0, prefetched);
    }
}

#[test]
fn numa_nodes_need_a_newer_runtime() {
    let at = Location::HostNuma(0);
    for cuda in [CudaVersion::V11_8, CudaVersion::V12_2, CudaVersion::V13_0] {
        let (_sim, device, stream) = simulated_with(|builder| builder.cuda(cuda));
        let buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
        let prefetched = buffer.prefetch_on(at, &stream).unwrap();
        let advised = buffer.advise(Advice::SetPreferredLocation(at)).unwrap();
        if cuda == CudaVersion::V11_8 {
            let text = "memory at host NUMA node 0 is not supported: it needs CUDA 12.2 or newer, and there is CUDA 11.8";
            for outcome in [prefetched, advised] {
                assert_eq!(outcome.require().unwrap_err().to_string(), text);
            }
            continue;
        }
        let found = of(&buffer);
        let places = [found.preferred_location, found.last_prefetch];
        assert_eq!(places, [Some(at); 2]);
    }
}
