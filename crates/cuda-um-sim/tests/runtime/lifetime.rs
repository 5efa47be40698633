//! Several simulators, and their ends.

use std::ptr::null_mut;

use cuda_um_sim::{Gpu, Sim, SimError};
use cuda_um_sys::cudaError;

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

#[test]
fn two_simulators_do_not_know_each_other() {
    let (first, second) = (
        h200(),
        Cuda::new(Sim::builder().gpu(Gpu::Pascal).devices(2)),
    );
    let (a, b) = (first.managed(MIB), second.managed(MIB));
    first.run("write", a, MIB);
    bytes(b, MIB).fill(1);
    assert_eq!(
        (first.sim.counters().kernels, second.sim.counters().kernels),
        (1, 0)
    );
    assert_eq!(
        (
            first.sim.counters().cpu_faults,
            second.sim.counters().gpu_faults
        ),
        (0, 0)
    );
    let mut count = 0;
    ok(call!(second.table, cudaGetDeviceCount(&mut count)));
    assert_eq!(count, 2);
    let mut back = vec![0u8; MIB];
    assert_eq!(
        second.prefetch(a, MIB, 0, null_mut()),
        cudaError::cudaErrorInvalidValue,
        "not its memory"
    );
    first.copy(back.as_mut_ptr(), a, MIB);
    assert!(back.iter().all(|byte| *byte == 7));
}

#[test]
fn the_table_keeps_the_simulator_alive() {
    let Cuda { sim, table } = h200();
    drop(sim);
    let mut pointer = null_mut();
    ok(call!(table, cudaMallocManaged(&mut pointer, MIB, 1)));
    bytes(pointer.cast(), MIB).fill(1);
    ok(call!(table, cudaFree(pointer)));
}

#[test]
fn more_simulators_than_slots_can_live_one_after_another() {
    for _ in 0..100 {
        let cuda = h200();
        let data = cuda.managed(4096);
        cuda.run("write", data, 4096);
        bytes(data, 1)[0] = 1;
    }
}

#[test]
fn unfinished_work_runs_before_a_simulator_ends() {
    let cuda = h200();
    let data = cuda.managed(MIB);
    // One: kernels of several would race for the bytes.
    let stream = cuda.stream();
    for _ in 0..10 {
        cuda.launch("add", data, MIB, stream);
    }
    let Cuda { sim, table } = cuda;
    drop(table);
    drop(sim);
}

#[test]
fn a_simulator_has_one_to_eight_devices() {
    for devices in [0, 9] {
        assert!(matches!(
            Sim::builder().devices(devices).build(),
            Err(SimError::Devices { .. })
        ));
    }
}
