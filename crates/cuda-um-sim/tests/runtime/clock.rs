//! The virtual clock: the events that advance it, and its promise.

mod table;

use std::ptr::null_mut;
use std::time::Duration;

use cuda_um_sim::Sim;
use cuda_um_sys::cudaError;

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

/// The time of a piece of work on the virtual clock, in microseconds.
fn cost(cuda: &Cuda, work: impl FnOnce()) -> f64 {
    let start = cuda.sim.now();
    work();
    (cuda.sim.now() - start).as_secs_f64() * 1e6
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
fn a_wrong_number_of_bytes_does_not_end_the_clock() {
    let cuda = h200();
    for _ in 0..1000 {
        cuda.sim.host_wrote(std::ptr::null(), usize::MAX);
    }
    assert!(cuda.sim.now() < Duration::from_secs(1 << 40));
}

#[test]
fn what_the_host_writes_costs_what_it_is_told_to() {
    let cuda = h200();
    let write = |data: *mut u8, len| cost(&cuda, || cuda.sim.host_wrote(data.cast(), len));
    let (data, len) = (cuda.managed(MIB), MIB);
    bytes(data, len).fill(1);
    let plain = write(data, len);
    let expected = len as f64 / 28e9 * 1e6;
    assert!((plain / expected - 1.0).abs() < 0.01, "{plain} us");
    let made = cuda.managed(len);
    ok(cuda.prefetch(made, len, -1, null_mut()));
    cuda.sync(null_mut());
    let (half, counters) = (len / 2, cuda.sim.counters());
    let mapped = write(made, half) - plain / 2.0;
    assert!(
        (mapped - 128.0 * 0.35).abs() < 0.01,
        "128 pages: {mapped} us"
    );
    assert!((write(made, half) - plain / 2.0).abs() < 0.01, "only once");
    assert_eq!(cuda.sim.counters(), counters, "nothing is counted");
    // Memory of the program, and a range that ends past an allocation: time is all there is to it.
    let mut own = vec![0u8; len];
    assert_eq!(write(own.as_mut_ptr(), len), plain);
    assert!(write(made, 64 * MIB) > 2.0 * write(made, 32 * MIB));
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
fn a_kernel_that_computes_takes_its_instructions() {
    let cuda = h200();
    let data = cuda.device(MIB);
    let [short, long] = [1, 1 << 16].map(|rounds| cost(&cuda, || cuda.run("spin", data, rounds)));
    // A warp alone begins an instruction every four cycles of about 1.8 GHz: 3 in a round.
    let expected = ((3 * 4) << 16) as f64 / 1.8e3;
    assert!(
        (expected / 2.0..expected * 2.0).contains(&(long - short)),
        "{expected} us: {short}, {long}"
    );
}
