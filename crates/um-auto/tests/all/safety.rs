//! Automatic prefetch leaves guards, other threads and failures alone.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use cuda_um::{Error, UnifiedBuffer};
use cuda_um_sim::Fail;
use cuda_um_testkit::calls;
use um_auto::{AutoPrefetch, AutoPrefetchStop};

use crate::rounds::{LEN, on_h200};

/// Memory that a guard holds does not move, although a kernel reads it in each round.
#[test]
fn memory_of_a_guard_stays() {
    on_h200(|l| {
        let device = &l.device;
        let saxpy = um_kernels::Saxpy::load(device).unwrap();
        let mut input = l.buffer(LEN);
        let mut output = l.buffer(LEN);
        let mut round = |at: usize| {
            input.host_mut().unwrap().fill(at as f32);
            let guard = input.host().unwrap();
            assert!(guard.iter().all(|x| *x == at as f32));
            // The kernel itself may read, and fault; no prefetch comes before it.
            saxpy.launch(l.stream(), 1.0, &input, &mut output).unwrap();
            assert!(guard.iter().all(|x| *x == at as f32));
            drop(guard);
            l.device.synchronize().unwrap();
        };
        let (_, report) = l.auto(8, &mut round);
        assert_eq!((report.plans, report.divergences), (1, 0), "{report}");
        assert_eq!(report.bytes_to_device, 0, "{report}");
        assert_eq!(output.host().unwrap()[LEN - 1], 28.0);
    });
}

#[test]
fn a_prefetch_that_fails_ends_the_plan_and_not_the_program() {
    on_h200(|l| {
        let sim = &l.sim;
        let mut work = l.faulting(LEN, false, 4);
        let (_, report) = l.auto(8, |at| {
            if at == 4 {
                // Before CUDA 13.0 the newer form has another name.
                for name in ["cudaMemPrefetchAsync", "cudaMemPrefetchAsync_v2"] {
                    sim.fail(Fail::call(name).with_code(999));
                }
            }
            work(at);
        });
        assert!(
            matches!(report.stopped, Some(AutoPrefetchStop::Failed(_))),
            "{report}"
        );
    });
}

#[test]
fn scopes_do_not_nest_on_a_thread() {
    on_h200(|l| {
        let outer = l.start();
        let inner = AutoPrefetch::start(&l.device).unwrap_err();
        assert!(matches!(inner, Error::Busy { .. }), "{inner}");
        outer.stop();
        // The next one begins afresh.
        l.start().stop();
    });
}

/// Each thread has a scope of its own, and work of a thread without one is not seen.
#[test]
fn threads_have_their_own_scopes() {
    on_h200(|l| {
        let alone = l.auto(1, |_| ()).1.events;
        std::thread::scope(|threads| {
            let with = || {
                let work = l.faulting(LEN, false, 4);
                let auto = l.start();
                (0..20).for_each(work);
                auto.stop()
            };
            let without = || {
                let mut work = l.faulting(LEN, false, 4);
                (0..20).for_each(&mut work);
            };
            let scopes = [threads.spawn(with), threads.spawn(with)];
            let other = threads.spawn(without);
            for scope in scopes {
                let report = scope.join().unwrap();
                // The simulator has one clock, which other threads advance, so that the comparison may stop it.
                assert!(report.events <= 120, "{report}");
                assert_eq!(report.divergences, 0, "{report}");
            }
            other.join().unwrap();
        });
        assert_eq!(alone, 0);
    });
}

/// A buffer that is dropped inside the scope takes its advice along, and a write ends it.
#[test]
fn read_mostly_ends_at_a_write_and_at_a_drop() {
    on_h200(|l| {
        let device = &l.device;
        let saxpy = um_kernels::Saxpy::load(device).unwrap();
        let mut weights = Some(l.buffer(LEN));
        let mut written = l.buffer(LEN);
        let mut sum = l.buffer(LEN);
        let mut round = |at: usize| {
            for (input, changes) in weights.iter().zip([false]).chain([(&written, true)]) {
                // Another number of launches for each, so that they are no pair of buffers that take turns.
                for _ in 0..1 + u32::from(changes) {
                    saxpy.launch(l.stream(), 1.0, input, &mut sum).unwrap();
                }
                l.device.synchronize().unwrap();
                let expected = if changes && at > 6 { 1.0 } else { 0.0 };
                assert!(input.host().unwrap().iter().all(|x| *x == expected));
            }
            if at == 9 {
                weights = None;
            }
            if at == 6 {
                assert!(written.range_attributes().unwrap().read_mostly);
                written.host_mut().unwrap().fill(1.0);
                assert!(!written.range_attributes().unwrap().read_mostly);
            }
        };
        let (_, report) = l.auto(12, &mut round);
        assert!(report.advised >= 2, "{report}");
    });
}

/// The move that follows a host guard is not that of a copy while the guard lives.
#[test]
fn a_copy_beside_a_guard_moves_nothing() {
    on_h200(|l| {
        let device = &l.device;
        let mut copies = UnifiedBuffer::<f32>::zeroed(device, LEN).unwrap();
        let mut source = UnifiedBuffer::<f32>::zeroed(device, LEN).unwrap();
        let mut data = l.buffer(LEN);
        let mut run = |copies_in: Option<usize>| {
            for buffer in [&mut copies, &mut source] {
                buffer.host_mut().unwrap().fill(1.0);
            }
            let (_, report) = l.auto(8, |at| {
                let mut guard = data.host_mut().unwrap();
                if Some(at) == copies_in {
                    l.stream().copy(&source, &mut copies).unwrap();
                }
                guard.fill(1.0);
                drop(guard);
                (0..4).for_each(|_| l.double(&mut data));
                assert_eq!(data.host().unwrap()[9], 16.0);
            });
            (
                report.prefetches,
                report.bytes_to_device,
                report.divergences,
            )
        };
        assert_eq!(run(None), run(Some(5)));
    });
}

/// A buffer that is lent to another library for writes is left alone: the end of a guard would wait for the device.
#[test]
#[allow(unsafe_code, reason = "exports a buffer")]
fn the_end_of_a_guard_does_not_wait_for_another_library() {
    on_h200(|l| {
        let sim = &l.sim;
        let device = &l.device;
        let theirs = device.create_stream().unwrap();
        let mut data = Arc::new(UnifiedBuffer::<f32>::zeroed(device, LEN).unwrap());
        let (_, report) = l.auto(7, |at| {
            // SAFETY: no other library exists that would write.
            let lent = (at == 6).then(|| unsafe { data.export_mut(&theirs).unwrap() });
            let guard = data.host().unwrap();
            assert!(guard.iter().all(|x| *x == 0.0));
            let before = calls(sim, "cudaDeviceSynchronize");
            drop(guard);
            assert_eq!(calls(sim, "cudaDeviceSynchronize"), before, "round {at}");
            drop(lent);
            let data = Arc::get_mut(&mut data).unwrap();
            for _ in 0..4 {
                l.double
                    .launch_on(l.stream(), LEN, (&mut *data, LEN as u32))
                    .unwrap();
            }
        });
        assert_eq!((report.plans, report.divergences), (1, 0), "{report}");
        assert!(report.bytes_to_device >= 3 * 4 * LEN as u64, "{report}");
    });
}

#[test]
fn a_clock_that_jumps_ends_nothing() {
    on_h200(|l| {
        let (mut both, mut written) = (l.buffer(1 << 20), l.buffer(1 << 20));
        let calls = Cell::new(0);
        let time = move || match calls.replace(calls.get() + 1) % 6 < 3 {
            true => Duration::ZERO,
            false => Duration::MAX,
        };
        let auto = AutoPrefetch::start_with_clock(&l.device, time).unwrap();
        for round in 0..60u8 {
            both.host_mut().unwrap().fill(round.into());
            both.fill_on(2.0, l.stream()).unwrap();
            written.fill_on(1.0, l.stream()).unwrap();
            written.host().unwrap();
            assert_eq!(both.host().unwrap()[7], 2.0);
        }
        auto.stop();
    });
}
