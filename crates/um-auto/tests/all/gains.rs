//! What automatic prefetch gains: from the third round on, the cost of prefetches by hand.

use cuda_um::{Location, UnifiedBuffer, View};
use cuda_um_sim::Gpu;

use crate::rounds::{Cost, LEN, on, on_h200};

/// Asserts that rounds cost at most a tenth more than those by hand, and have no faults, from the third on.
fn assert_as_by_hand(auto: &[Cost], by_hand: &[Cost]) {
    let best = by_hand.iter().skip(2).map(|cost| cost.time).min().unwrap();
    for (round, cost) in auto.iter().enumerate().skip(2) {
        assert!(
            cost.time <= best + best / 10,
            "round {round}: {cost:?}, {best:?} by hand"
        );
        assert_eq!(cost.faults, 0, "round {round}: {cost:?}");
    }
}

#[test]
fn the_faulting_loop_costs_as_by_hand_from_the_third_round_on() {
    on_h200(|l| {
        let plain = l.rounds(6, l.faulting(LEN, false, 4));
        let by_hand = l.rounds(6, l.faulting(LEN, true, 4));
        let (auto, report) = l.auto(6, l.faulting(LEN, false, 4));
        assert_as_by_hand(&auto, &by_hand);
        assert_eq!(auto[0], plain[0], "recording moves nothing");
        assert!(plain[2].faults >= 20, "{plain:?}");
        assert_eq!(auto[3].bytes, 2 * 4 * LEN as u64);
        assert_eq!((report.plans, report.divergences), (1, 0), "{report}");
        assert_eq!(report.rounds_recorded, 2, "{report}");
        assert_eq!(report.rounds_planned, 4, "{report}");
        assert_eq!(report.bytes_to_device, 4 * 4 * LEN as u64, "{report}");
        assert!(
            report.faults_avoided.abs_diff(4 * plain[2].faults) <= 12,
            "{report}"
        );
        assert_eq!(report.stopped, None, "{report}");
        assert!(report.round_with < report.round_without, "{report}");
    });
}

/// A kernel that uses a buffer once between two guards uses it over the link, which takes less time than two prefetches.
#[test]
fn a_buffer_of_the_host_stays_there_if_the_link_is_faster() {
    on_h200(|l| {
        let by_hand = l.rounds(6, l.faulting(LEN, true, 1));
        let (auto, report) = l.auto(6, l.faulting(LEN, false, 1));
        assert_as_by_hand(&auto[1..], &by_hand);
        assert_eq!((auto[5].bytes, report.advised), (0, 1), "{report}");
        assert!(auto[5].time < by_hand[5].time / 2, "{auto:?} {by_hand:?}");
    });
}

#[test]
fn every_gpu_gains_or_is_left_alone() {
    for gpu in [Gpu::H200, Gpu::Gh200, Gpu::Pascal] {
        on(gpu, |l| {
            let plain = l.rounds(6, l.faulting(LEN, false, 4));
            let (auto, report) = l.auto(6, l.faulting(LEN, false, 4));
            assert!(auto[5].time <= plain[5].time, "{gpu:?}: {report}");
        });
    }
}

/// A buffer that both sides read each round becomes read-mostly, and moves once.
#[test]
fn a_buffer_that_both_sides_read_is_duplicated() {
    on_h200(|l| {
        let device = &l.device;
        let saxpy = um_kernels::Saxpy::load(device).unwrap();
        let weights = l.buffer(LEN);
        let mut sum = l.buffer(LEN);
        let mut round = |_| {
            let weights: View<'_, f32> = weights.as_view();
            saxpy.launch(l.stream(), 1.0, weights, &mut sum).unwrap();
            // The host's read is not ordered after the kernel's.
            l.device.synchronize().unwrap();
            assert!(weights.host().unwrap().iter().all(|x| *x == 0.0));
        };
        let (auto, report) = l.auto(6, &mut round);
        assert_eq!(report.advised, 1, "{report} {auto:?}");
        assert!(auto[1].bytes > 0);
        for cost in &auto[4..] {
            assert_eq!((cost.faults, cost.bytes), (0, 0), "{auto:?}");
        }
        let attributes = weights.range_attributes().unwrap();
        assert!(!attributes.read_mostly, "the advice ends with the scope");
    });
}

/// A buffer that each round allocates anew is the same one to a plan.
#[test]
fn buffers_of_a_round_are_planned() {
    on_h200(|l| {
        let round = |at: usize| {
            let mut data = l.buffer(LEN);
            data.host_mut().unwrap().fill(at as f32);
            l.double(&mut data);
            assert_eq!(data.host().unwrap()[LEN - 1], 2.0 * at as f32);
        };
        let plain = l.rounds(6, round);
        let (auto, report) = l.auto(6, round);
        assert!(plain[4].faults > 0);
        assert!(auto[4].faults <= 1, "the host reads one element: {report}");
        assert!(auto[4].time < plain[4].time / 2, "{plain:?} {auto:?}");
    });
}

/// A loop over parts of a buffer that the host filled: each part is prefetched before its kernel.
#[test]
fn parts_of_a_buffer_are_prefetched_one_by_one() {
    on_h200(|l| {
        let part = 1 << 20;
        let data = || {
            let mut data = l.buffer(8 * part);
            data.prefetch_on(Location::Host, l.stream()).unwrap();
            data.host_mut().unwrap().fill(1.0);
            data
        };
        let use_part = |data: &mut UnifiedBuffer<f32>, at: usize| {
            let range = at * part..(at + 1) * part;
            let mut view = data.view_mut(range).unwrap();
            let view = view.as_view_mut();
            l.double
                .launch_on(l.stream(), part, (view, part as u32))
                .unwrap();
        };
        let mut buffer = data();
        let (auto, report) = l.auto(8, |at| use_part(&mut buffer, at));
        assert!(auto[0].faults > 0, "{auto:?}");
        assert!(
            auto[2..].iter().all(|cost| cost.faults == 0),
            "{report} {auto:?}"
        );
        assert!(auto[7].time < auto[0].time / 2);
        assert!(buffer.host().unwrap().iter().all(|x| *x == 2.0));
    });
}
