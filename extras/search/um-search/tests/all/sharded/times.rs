//! Two devices against one, by the simulator's clock.

use super::{Device, eight};
use cuda_um::DeviceBuffer;
use cuda_um_sim::Sim;
use half::f16;
use std::time::Duration;
use um_search::{Filter, Metric, Shard, ShardedSearch, TopKShape};

/// Elements of a row: many, so that the kernel takes longer than its launch.
const DIM: usize = 1 << 13;

/// The modelled time of a search over these devices, each with so many rows of zeros.
fn time(sim: &Sim, devices: &[Device], rows: usize) -> Duration {
    let search = ShardedSearch::load(devices).unwrap();
    let zeros = |device| DeviceBuffer::<f16>::zeroed(device, rows * DIM).unwrap();
    let buffers: Vec<_> = devices.iter().map(zeros).collect();
    let shards = buffers.iter().enumerate();
    let shards: Vec<_> = shards
        .map(|(number, buffer)| Shard::new(number * rows, buffer.as_view()))
        .collect();
    let shape = TopKShape {
        queries: 1,
        targets: devices.len() * rows,
        dim: DIM,
        k: 10,
    };
    let (queries, metric) = (vec![1.0f32; DIM], Metric::InnerProduct);
    let (mut scores, mut indices) = ([0.0; 10], [0; 10]);
    let mut search = || {
        let before = sim.now();
        search
            .search(
                shape,
                metric,
                Filter::Off,
                &queries,
                &shards,
                &mut scores,
                &mut indices,
            )
            .unwrap();
        // Not the host's clock: the questions of a wait advance it, whose number depends on how fast this machine simulates.
        let ends = devices
            .iter()
            .map(|device| sim.device_time(device.ordinal()));
        ends.max().flatten().unwrap() - before
    };
    // The first allocates.
    search();
    let time = search();
    assert_eq!(indices, std::array::from_fn(|place| place as u32));
    time
}

#[test]
fn two_devices_are_nearly_twice_as_fast_by_the_model() {
    let (sim, devices) = eight();
    // Half of the rows have enough blocks for all multiprocessors.
    let (rows, one, two) = (131_072, &devices[..1], &devices[..2]);
    let whole = time(&sim, one, rows);
    let halves = time(&sim, two, rows / 2);
    let half = time(&sim, one, rows / 2);
    let (strong, weak) = (
        whole.as_secs_f64() / halves.as_secs_f64(),
        half.as_secs_f64() / halves.as_secs_f64(),
    );
    println!(
        "modelled: {rows} rows on one device {whole:?}, on two {halves:?}: {strong:.3} times as fast; half of the rows on one \
         {half:?}: weak scaling {weak:.3}"
    );
    assert!(strong >= 1.8 && weak >= 0.95, "{strong:.3} {weak:.3}");
}
