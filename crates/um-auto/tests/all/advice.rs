//! The advice of a plan, beside that of the program.

use cuda_um::{Advice, Location, UnifiedBuffer, managed::RangeAttributes};
use std::time::Instant;
use um_auto::AutoPrefetch;
use um_kernels::Saxpy;

use crate::rounds::{LEN, Loop, on_h200};

/// A loop in which a kernel and the host read a buffer.
struct BothRead<'l> {
    l: &'l Loop,
    saxpy: Saxpy,
    sum: UnifiedBuffer<f32>,
}

impl<'l> BothRead<'l> {
    fn new(l: &'l Loop) -> Self {
        let device = &l.device;
        Self {
            l,
            saxpy: Saxpy::load(device).unwrap(),
            sum: UnifiedBuffer::zeroed(device, LEN).unwrap(),
        }
    }

    fn round(&mut self, weights: &UnifiedBuffer<f32>) {
        let (l, sum) = (self.l, &mut self.sum);
        self.saxpy.launch(l.stream(), 1.0, weights, sum).unwrap();
        l.device.synchronize().unwrap();
        assert!(weights.host().unwrap().iter().all(|x| *x == 0.0));
    }
}

fn attributes(buffer: &UnifiedBuffer<f32>) -> RangeAttributes {
    buffer.range_attributes().unwrap()
}

fn zeroed(l: &Loop) -> UnifiedBuffer<f32> {
    UnifiedBuffer::zeroed(&l.device, LEN).unwrap()
}

/// The program advises a buffer that the plan of a running scope has advised: its advice is there to stay.
#[test]
fn advice_that_the_program_gives_inside_of_a_scope_stays() {
    on_h200(|l| {
        let weights = zeroed(l);
        let mut both_read = BothRead::new(l);
        let (_, report) = l.auto(12, |at| {
            if at == 6 {
                assert!(attributes(&weights).read_mostly, "advised by the plan");
                weights.advise(Advice::SetReadMostly).unwrap();
            }
            both_read.round(&weights);
        });
        assert_eq!(report.advised, 1, "{report}");
        assert!(attributes(&weights).read_mostly);
    });
}

/// The same for memory that the plan keeps on the host, and for other advice than the plan's.
#[test]
fn a_preferred_location_of_the_program_stays() {
    on_h200(|l| {
        let here = Location::from(&l.device);
        let mut data = zeroed(l);
        let (_, report) = l.auto(12, |at| {
            data.host_mut().unwrap().fill(1.0);
            let arguments = (&mut data, LEN as u32);
            l.double.launch_on(l.stream(), LEN, arguments).unwrap();
            assert!(data.host().unwrap().iter().all(|x| *x == 2.0));
            if at == 6 {
                assert_eq!(attributes(&data).accessed_by, [here], "advised by the plan");
                data.advise(Advice::SetPreferredLocation(Location::Host))
                    .unwrap();
                assert_eq!(
                    attributes(&data).accessed_by,
                    [],
                    "the plan's advice has ended"
                );
            }
        });
        assert_eq!(report.advised, 1, "{report}");
        assert_eq!(attributes(&data).preferred_location, Some(Location::Host));
        // Without advice it is a buffer as others are.
        data.advise(Advice::UnsetPreferredLocation).unwrap();
        let faulting = |_| data.host_mut().unwrap().fill(1.0);
        let (_, report) = l.auto(1, faulting);
        assert_eq!(report.events, 1, "{report}");
    });
}

#[test]
fn advice_that_the_program_gave_before_a_scope_stays() {
    on_h200(|l| {
        let here = Location::from(&l.device);
        let weights = zeroed(l);
        weights.advise(Advice::SetPreferredLocation(here)).unwrap();
        weights
            .view(..1)
            .unwrap()
            .advise(Advice::SetAccessedBy(Location::Host))
            .unwrap();
        let mut both_read = BothRead::new(l);
        let (_, report) = l.auto(8, |_| both_read.round(&weights));
        assert_eq!((report.advised, report.prefetches), (0, 0), "{report}");
        assert_eq!(attributes(&weights).preferred_location, Some(here));
        // The advice for a part counts until the whole buffer has none.
        weights.advise(Advice::UnsetPreferredLocation).unwrap();
        let (_, report) = l.auto(8, |_| both_read.round(&weights));
        assert_eq!(report.advised, 0, "{report}");
        weights
            .advise(Advice::UnsetAccessedBy(Location::Host))
            .unwrap();
        let (_, report) = l.auto(8, |_| both_read.round(&weights));
        assert_eq!(report.advised, 1, "{report}");
    });
}

/// Memory of another library goes back as it came.
#[test]
#[allow(unsafe_code, reason = "imports memory")]
fn imported_memory_is_not_advised() {
    on_h200(|l| {
        let theirs = zeroed(l);
        let pointer = std::ptr::NonNull::new(theirs.as_view().as_ptr().cast_mut()).unwrap();
        // SAFETY: the memory has the elements, and it is used only through the import until that is dropped.
        let weights = unsafe { UnifiedBuffer::from_foreign(theirs.device(), pointer, LEN, ()) };
        let mut weights = Some(weights.unwrap());
        let mut both_read = BothRead::new(l);
        let (_, report) = l.auto(12, |at| {
            if at == 8 {
                weights = None;
                assert!(!attributes(&theirs).read_mostly);
            }
            both_read.round(weights.as_ref().unwrap_or(&theirs));
        });
        // Their own buffer is one of the library's.
        assert!(report.advised <= 1, "{report}");
        assert!(report.prefetches > 0, "imported memory moves: {report}");
    });
}

/// A handle that is forgotten ends with its thread: its advice ends, and the next scope begins afresh.
#[test]
fn a_forgotten_scope_ends_with_its_thread() {
    on_h200(|l| {
        let weights = zeroed(l);
        let forgotten = || {
            let began = Instant::now();
            let device = &l.device;
            let auto = AutoPrefetch::start_with_clock(device, move || began.elapsed()).unwrap();
            let mut both_read = BothRead::new(l);
            for _ in 0..4 {
                both_read.round(&weights);
            }
            assert!(attributes(&weights).read_mostly);
            std::mem::forget(auto);
            assert!(AutoPrefetch::start(device).is_err());
        };
        std::thread::scope(|threads| threads.spawn(forgotten).join().unwrap());
        assert!(!attributes(&weights).read_mostly);
    });
}
