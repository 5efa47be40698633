//! Where automatic prefetch does nothing, stops, or learns again.

use cuda_um::Location;
use cuda_um_sim::Gpu;
use um_auto::AutoPrefetchStop;

use crate::rounds::{Cost, LEN, on, on_h200};

#[test]
fn a_divergence_ends_the_plan_and_another_is_learned() {
    on_h200(|l| {
        let mut work = l.faulting(LEN, false, 4);
        let mut other = l.buffer(LEN);
        let (costs, report) = l.auto(16, |at| {
            if at == 6 {
                other.host_mut().unwrap().fill(3.0);
            }
            work(at);
        });
        assert_eq!((report.divergences, report.plans), (1, 2), "{report}");
        assert_eq!(costs[5].faults, 0);
        assert!(costs[7].faults > 0, "learns: {costs:?}");
        assert!(costs[10..].iter().all(|cost| cost.faults == 0), "{costs:?}");
        assert!(other.host().unwrap().iter().all(|x| *x == 3.0));
    });
}

#[test]
fn a_prefix_and_a_loop_inside_of_a_loop_are_learned() {
    on_h200(|l| {
        let mut data = l.buffer(LEN);
        data.host_mut().unwrap()[0] = 1.0;
        let mut prefix = l.buffer(64);
        let (costs, report) = l.auto(8, |at| {
            if at == 0 {
                prefix.host_mut().unwrap().fill(1.0);
                l.double(&mut prefix);
            }
            data.host_mut().unwrap().fill(at as f32);
            (0..5).for_each(|_| l.double(&mut data));
            assert_eq!(data.host().unwrap()[9], 32.0 * at as f32);
        });
        // The first rounds look like one loop with the prefix, until they do not.
        assert!(
            costs[5..].iter().all(|cost| cost.faults <= 1),
            "{report} {costs:?}"
        );
        assert!(report.divergences <= 1, "{report}");
    });
}

/// A program with prefetches of its own leaves nothing to gain.
#[test]
fn prefetches_by_hand_are_enough() {
    on_h200(|l| {
        let by_hand = l.rounds(300, l.faulting(1 << 14, true, 4));
        let (auto, report) = l.auto(300, l.faulting(1 << 14, true, 4));
        // The time of a wait depends on the host's threads, by a few queries.
        let bytes = |costs: &[Cost]| {
            costs
                .iter()
                .map(|cost| (cost.faults, cost.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(bytes(&auto), bytes(&by_hand));
        assert_eq!(report.prefetches, 0, "{report}");
        assert_eq!(
            report.stopped,
            Some(AutoPrefetchStop::NothingToGain),
            "{report}"
        );
    });
}

/// The host uses a few pages of a large buffer: a prefetch of all would be slower.
#[test]
fn a_guard_that_uses_a_few_pages_moves_nothing() {
    on_h200(|l| {
        let mut data = l.buffer(16 * LEN);
        let mut round = |at| {
            l.double(&mut data);
            let mut guard = data.host_mut().unwrap();
            guard[at] += 1.0;
        };
        let plain = l.rounds(20, &mut round);
        let (auto, report) = l.auto(20, &mut round);
        assert_eq!(report.prefetches, 0, "{report}");
        assert_eq!(auto[19], plain[19]);
    });
}

/// A kernel that uses a small part of its argument looks as if it faulted all of it in. The rounds show that the plan is wrong.
#[test]
fn a_plan_that_is_slower_stops() {
    on_h200(|l| {
        let device = &l.device;
        let here = Location::from(device);
        let mut data = l.buffer(8 << 20);
        let long = l.buffer(64 << 20);
        let mut round = |_| {
            let stream = l.stream();
            for to in [Location::Host, here] {
                long.prefetch_on(to, stream).unwrap();
            }
            data.prefetch_on(Location::Host, stream).unwrap();
            data.host_mut().unwrap()[0] = 1.0;
            l.double
                .launch_on(l.stream(), 16, (&mut data, 16u32))
                .unwrap();
            l.device.synchronize().unwrap();
        };
        let plain = l.rounds(3, &mut round);
        let (auto, report) = l.auto(20, &mut round);
        assert!(
            matches!(report.stopped, Some(AutoPrefetchStop::Slower { .. })),
            "{report}"
        );
        assert_eq!(auto[19].bytes, plain[2].bytes, "{report}");
        assert!(auto[19].time <= plain[2].time, "{auto:?}");
    });
}

#[test]
fn a_device_without_concurrent_access_is_left_alone() {
    for gpu in [Gpu::NoConcurrentAccess, Gpu::Maxwell] {
        on(gpu, |l| {
            let (_, report) = l.auto(4, l.faulting(64, false, 4));
            assert_eq!(report.stopped, Some(AutoPrefetchStop::NotSupported));
            assert_eq!(report.events, 0);
        });
    }
}

#[test]
fn a_program_without_a_loop_is_recorded_for_a_while() {
    on_h200(|l| {
        let mut data = l.buffer(64);
        let (_, report) = l.auto(2000, |at| {
            if at == 0 {
                data.host_mut().unwrap()[0] = 1.0;
            }
            l.double(&mut data);
        });
        assert_eq!(report.stopped, Some(AutoPrefetchStop::NothingToGain));
        assert!(report.events < 600, "{report}");
    });
}
