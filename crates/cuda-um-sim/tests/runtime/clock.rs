//! The virtual clock: what advances it, and its times against what was measured on an H200.

mod rows;
mod table;

use std::ptr::null_mut;
use std::time::Duration;

use cuda_um_sim::Sim;
use cuda_um_sys::cudaError;

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

/// What a piece of work costs on the virtual clock, in microseconds.
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
