//! The location that the driver tells corrects the cache.

use super::MIB;
use cuda_um::{Location, MemoryKind, Pool, PoolOptions, UnifiedBuffer};
use cuda_um_sim::{CudaVersion, Fail};
use cuda_um_sys::cudaError;
use cuda_um_testkit::simulated_with;

#[test]
fn where_the_driver_can_tell_it_corrects_what_is_remembered() {
    let (sim, device, stream) = simulated_with(|builder| builder.cuda(CudaVersion::V13_4));
    let buffer = UnifiedBuffer::<u8>::zeroed(&device, 4 * MIB).unwrap();
    let at = |range| buffer.view(range).unwrap().residency().unwrap();
    let (on_device, on_host) = (Some(Location::Device(0)), Some(Location::Host));
    assert_eq!(at(0..4 * MIB), on_device);
    // Without the library: the CPU reads the second half.
    let address = buffer.as_ptr();
    stream.synchronize().unwrap();
    for page in (2 * MIB..4 * MIB).step_by(4096) {
        #[allow(unsafe_code, reason = "accesses the buffer like foreign code")]
        // SAFETY: within the buffer; no work is running.
        let byte = unsafe { address.add(page).read_volatile() };
        assert_eq!(byte, 0);
    }
    let parts = [0..2 * MIB, 2 * MIB..4 * MIB, 0..4 * MIB];
    assert_eq!(parts.map(at), [on_device, on_host, None]);
    sim.reset_counters();
    buffer.prefetch_on(&device, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sim.counters().bytes_to_device, 2 * MIB as u64);
    sim.fail(Fail::call("cudaMemGetLocationInfo").with(cudaError::cudaErrorInvalidValue));
    let error = buffer.residency().unwrap_err();
    assert!(
        error.to_string().starts_with("cudaMemGetLocationInfo: "),
        "{error}"
    );
}

/// A guard used to count only at its creation: memory that it accessed after a prefetch was still reported to be on the device.
#[test]
fn a_guard_that_lives_may_take_pages_back_at_any_time() {
    let (sim, device, stream) = simulated_with(|builder| builder.cuda(CudaVersion::V13_0));
    let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
    let own = UnifiedBuffer::<u8>::zeroed(&device, 6 * MIB).unwrap();
    let on_device = Some(Location::Device(0));
    let [one, neighbour] = [(); 2].map(|()| UnifiedBuffer::<u8>::zeroed_in(&pool, 1000).unwrap());
    // The guard's own buffer, and another one on the same page.
    for (buffer, held, then) in [(&own, &own, on_device), (&one, &neighbour, None)] {
        let guard = held.host().unwrap();
        buffer.prefetch_on(&device, &stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(guard.iter().max(), Some(&0));
        let while_it_lives = buffer.residency().unwrap();
        drop(guard);
        for found in [while_it_lives, buffer.residency().unwrap()] {
            assert_ne!(found, Some(Location::Device(0)));
        }
        sim.reset_counters();
        buffer.prefetch_on(&device, &stream).unwrap();
        stream.synchronize().unwrap();
        assert!(sim.counters().bytes_to_device > 0, "it was not left out");
        assert_eq!(
            buffer.residency().unwrap(),
            then,
            "no guard lives; of a shared block nothing is known"
        );
    }
}

/// The driver's answer used to count also while work was pending.
#[test]
fn what_the_driver_says_now_is_not_known_while_a_kernel_may_take_it_elsewhere() {
    let (sim, device, stream) =
        simulated_with(|builder| builder.cuda(CudaVersion::V13_4).devices(2));
    let other = device.runtime().device(1).unwrap();
    let elsewhere = other.create_stream().unwrap();
    let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
    let [one, mut neighbour] =
        [(); 2].map(|()| UnifiedBuffer::<u8>::zeroed_in(&pool, 1000).unwrap());
    device.synchronize().unwrap();
    let _held = sim.hold(0);
    neighbour.fill_on(1, &elsewhere).unwrap();
    assert_eq!(one.residency().unwrap(), None);
    elsewhere.synchronize().unwrap();
    one.prefetch_on(&device, &stream).unwrap();
    stream.synchronize().unwrap();
    sim.reset_counters();
    let mut one = one;
    one.fill_on(5, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(sim.counters().gpu_faults, 0, "it was not left out");
}
