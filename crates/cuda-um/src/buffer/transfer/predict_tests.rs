//! Predictions of copies by the built-in models.

use crate::buffer::transfer::{Direction, TransferOptions, Transfers};
use cuda_um_cost::CostModel;
use std::time::Duration;

const MIB: usize = 1 << 20;

#[test]
fn longer_copies_take_longer_and_more_threads_do_not() {
    for model in [CostModel::h200(), CostModel::h100(), CostModel::pascal()] {
        for direction in [Direction::ToDevice, Direction::ToHost] {
            let mut fewer = None;
            for threads in [1, 2, 12] {
                let transfers = Transfers::default();
                transfers.configure(TransferOptions::default().threads(threads));
                let sizes = [0, 1, 4, 300, 500, 600, 2000, 2100, 4200, 17_000, 300_000];
                let times = sizes.map(|kib| transfers.predict_staged(&model, direction, kib << 10));
                let on_host = sizes.map(|kib| transfers.predict_on_host(&model, kib << 10));
                assert!(on_host.is_sorted(), "{threads} {on_host:?}");
                // The ways differ by some percent where one takes over.
                let grows = |pair: &[Duration]| pair[1] >= pair[0].mul_f64(0.8);
                let is_right = times.windows(2).all(grows);
                assert!(is_right, "{threads} {direction:?} {times:?}");
                let last = times[times.len() - 1];
                assert!(fewer.is_none_or(|fewer| last <= fewer));
                fewer = Some(last);
            }
        }
    }
}

#[test]
fn the_largest_copies_have_a_prediction() {
    let transfers = Transfers::default();
    let time = transfers.predict_staged(&CostModel::h200(), Direction::ToHost, usize::MAX);
    assert!(time > transfers.predict_staged(&CostModel::h200(), Direction::ToHost, MIB << 20));
}

#[test]
fn only_devices_that_read_host_memory_in_place_copy_without_staging() {
    use cuda_um_sim::{Gpu, Sim};
    let (to_device, to_host) = (Direction::ToDevice, Direction::ToHost);
    for (gpu, direct) in [
        (Gpu::Gh200, true),
        (Gpu::Gb10, true),
        (Gpu::Hmm, false),
        (Gpu::H200, false),
        (Gpu::NoConcurrentAccess, false),
    ] {
        let sim = Sim::builder().gpu(gpu).build().unwrap();
        let runtime = crate::context::runtime::Runtime::from_table(sim.table()).unwrap();
        let device = runtime.device(0).unwrap();
        let (capabilities, mut model) = (device.capabilities(), (*device.cost_model()).clone());
        for direction in [to_device, to_host] {
            let found = super::predict::is_direct(capabilities, &model, direction);
            assert_eq!(found, direct, "{gpu:?} {direction:?}");
        }
        // A machine whose driver is slower than staging, by its calibration.
        model.pageable_rate = model.staged_to_device_rate / 2.0;
        assert!(!super::predict::is_direct(capabilities, &model, to_device));
    }
}
