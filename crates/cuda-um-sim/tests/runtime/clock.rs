//! The virtual clock against what was measured on an H200.

use std::ptr::null_mut;
use std::time::Duration;

use cuda_um_sim::Sim;
use cuda_um_sys::cudaError;

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

const KIB: usize = 1 << 10;

/// What a piece of work costs on the virtual clock, in microseconds.
fn cost(cuda: &Cuda, work: impl FnOnce()) -> f64 {
    let start = cuda.sim.now();
    work();
    (cuda.sim.now() - start).as_secs_f64() * 1e6
}

/// Simulated times lie within this factor of the measured ones.
const FACTOR: f64 = 1.8;

fn assert_near(what: &str, simulated: f64, measured: f64) {
    println!("{what}: {simulated:.1} us, measured {measured} us");
    let within = (measured / FACTOR..=measured * FACTOR).contains(&simulated);
    assert!(
        within,
        "{what}: {simulated:.1} us on the simulator, {measured} us measured"
    );
}

#[test]
fn moving_managed_memory_costs_what_was_measured() {
    // Bytes; then microseconds: prefetch to device, to host, of what is there; kernel faults; CPU faults.
    let measured = [
        (4 * KIB, 14.7, 11.6, 2.2, 32.0, 12.0),
        (64 * KIB, 16.6, 15.1, 2.0, 49.0, 16.0),
        (MIB, 50.0, 69.0, 2.0, 225.0, 126.0),
        (16 * MIB, 348.0, 685.0, 8.9, 1919.0, 1746.0),
        (256 * MIB, 5243.0, 10937.0, 113.0, 25763.0, 28275.0),
    ];
    for (len, to_device, to_host, resident, gpu_faults, cpu_faults) in measured {
        let cuda = h200();
        let data = cuda.managed(len);
        bytes(data, len)
            .chunks_mut(4096)
            .for_each(|page| page[0] = 1);
        let prefetch = |to| {
            cost(&cuda, || {
                ok(cuda.prefetch(data, len, to, null_mut()));
                cuda.sync(null_mut());
            })
        };
        assert_near("prefetch to the device", prefetch(0), to_device);
        assert_near("prefetch of what is there", prefetch(0), resident);
        assert_near("prefetch to the host", prefetch(-1), to_host);
        assert_near(
            "a kernel faults it in",
            cost(&cuda, || cuda.run("read", data, len)),
            gpu_faults,
        );
        let read = || assert!(bytes(data, len).chunks(4096).all(|page| page[0] == 1));
        assert_near("the CPU faults it back", cost(&cuda, read), cpu_faults);
    }
}

#[test]
fn explicit_copies_cost_what_was_measured() {
    // Bytes; then microseconds: pageable, pinned.
    for (len, pageable, pinned) in [
        (4 * KIB, 6.7, 6.7),
        (MIB, 69.0, 26.0),
        (16 * MIB, 1000.0, 309.0),
    ] {
        let cuda = h200();
        let (device, locked, plain) = (cuda.device(len), cuda.pinned(len), vec![0u8; len]);
        assert_near(
            "pageable to the device",
            cost(&cuda, || cuda.copy(device, plain.as_ptr(), len)),
            pageable,
        );
        assert_near(
            "pinned to the device",
            cost(&cuda, || cuda.copy(device, locked, len)),
            pinned,
        );
        assert_near(
            "device to pinned",
            cost(&cuda, || cuda.copy(locked, device, len)),
            pinned,
        );
    }
}

#[test]
fn splitting_a_prefetch_over_streams_gains_nothing() {
    let cuda = h200();
    let (len, parts) = (64 * MIB, 4);
    let data = cuda.managed(len);
    bytes(data, len)
        .chunks_mut(4096)
        .for_each(|page| page[0] = 1);
    let whole = cost(&cuda, || {
        ok(cuda.prefetch(data, len, 0, null_mut()));
        cuda.sync(null_mut());
    });
    ok(cuda.prefetch(data, len, -1, null_mut()));
    cuda.sync(null_mut());
    let streams: Vec<_> = (0..parts).map(|_| cuda.stream()).collect();
    let split = cost(&cuda, || {
        for (part, stream) in streams.iter().enumerate() {
            // SAFETY: inside the allocation.
            ok(cuda.prefetch(
                unsafe { data.add(part * len / parts) },
                len / parts,
                0,
                *stream,
            ));
        }
        ok(call!(cuda.table, cudaDeviceSynchronize()));
    });
    assert!(
        split > whole * 0.95,
        "they share the link: {split} us in parts, {whole} us whole"
    );
}

#[test]
fn calls_that_fail_and_time_that_passes_cost_nothing() {
    let cuda = h200();
    let start = cuda.sim.now();
    assert_eq!(
        call!(cuda.table, cudaSetDevice(7)),
        cudaError::cudaErrorInvalidDevice
    );
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(cuda.sim.now(), start);
    assert_eq!(cuda.sim.device_time(1), None);
    let data = cuda.device(MIB);
    cuda.run("write", data, MIB);
    assert!(cuda.sim.device_time(0) > Some(start));
}

#[test]
fn the_prices_can_be_changed() {
    let mut prices = cuda_um_sim::CostModel::h200();
    prices.cpu_fault = Duration::from_secs(1);
    let cuda = Cuda::new(Sim::builder().cost_model(prices));
    let data = cuda.managed(4096);
    cuda.run("write", data, 4096);
    assert!(cost(&cuda, || bytes(data, 1)[0] = 1) > 1e6);
}

#[test]
fn prices_that_no_machine_has_are_refused() {
    let mut prices = cuda_um_sim::CostModel::h200();
    prices.pinned_rate = f64::NAN;
    let refused = Sim::builder().cost_model(prices).build();
    let Err(cuda_um_sim::SimError::Cost(error)) = refused else {
        panic!("the clock would stand still: {refused:?}");
    };
    assert!(
        error
            .to_string()
            .contains("\"pinned_bytes_per_s\" of the cost model is NaN"),
        "{error}"
    );
}

#[test]
fn a_twin_says_how_long_its_kernel_computes() {
    let cuda = Cuda::new(Sim::builder().kernel("custom", |launch| {
        launch.spend(Duration::from_micros(700));
        Ok(())
    }));
    let data = cuda.device(MIB);
    let idle = cost(&cuda, || cuda.run("write", data, 1));
    let busy = cost(&cuda, || cuda.run("custom", data, 1));
    assert!((695.0..705.0).contains(&(busy - idle)), "{idle} {busy}");
}
