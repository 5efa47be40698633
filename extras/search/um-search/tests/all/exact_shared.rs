//! One `ExactTopK` for several threads and for a subscriber, and failures in the middle of a launch.

use crate::subscriber::AtEvents;
use crate::support::noise;
use cuda_um::{Device, DeviceBuffer, Stream};
use cuda_um_sim::{Fail, Gpu, Sim};
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{simulated, simulated_with};
use half::f16;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use um_search::{ExactTopK, Filter, Metric, SearchBuffers, SearchPath, TopKShape};

/// A set of rows, and the lists of its queries.
struct Work {
    shape: TopKShape,
    metric: Metric,
    queries: DeviceBuffer<f16>,
    targets: DeviceBuffer<f32>,
    right: Vec<u32>,
}

impl Work {
    fn new(device: &Device, shape: TopKShape, metric: Metric) -> Self {
        let queries = noise(31, shape.queries * shape.dim);
        let queries: Vec<f16> = queries.into_iter().map(f16::from_f32).collect();
        let targets = noise(32, shape.targets * shape.dim);
        Self {
            shape,
            metric,
            queries: DeviceBuffer::from_slice(device, &queries).unwrap(),
            targets: DeviceBuffer::from_slice(device, &targets).unwrap(),
            right: Vec::new(),
        }
    }

    fn searched(mut self, search: &ExactTopK, stream: &Stream) -> Self {
        self.right = self.search(search, stream, Filter::Off).unwrap().0;
        self
    }

    fn search(
        &self,
        search: &ExactTopK,
        stream: &Stream,
        filter: Filter,
    ) -> um_search::Result<(Vec<u32>, SearchPath)> {
        let (device, results) = (stream.device(), self.shape.queries * self.shape.k);
        let mut scores = DeviceBuffer::<f32>::zeroed(&device, results)?;
        let mut indices = DeviceBuffer::<u32>::zeroed(&device, results)?;
        let buffers = SearchBuffers {
            queries: self.queries.view(..)?,
            targets: self.targets.view(..)?,
            scores: scores.view_mut(..)?,
            indices: indices.view_mut(..)?,
        };
        let path = search.launch(stream, self.shape, self.metric, filter, buffers)?;
        let mut found = vec![0; results];
        indices.copy_to_host(&mut found)?;
        Ok((found, path))
    }

    fn check(&self, search: &ExactTopK, stream: &Stream, filter: Filter) {
        let (found, path) = self.search(search, stream, filter).unwrap();
        assert!(found == self.right, "{filter:?} {:?} {path:?}", self.shape);
    }
}

fn shape(queries: usize, targets: usize, dim: usize) -> TopKShape {
    TopKShape {
        queries,
        targets,
        dim,
        k: 3,
    }
}

/// Few queries, many, and so many targets that `Filter::Auto` begins in 8 bits and waits.
fn works(search: &ExactTopK, stream: &Stream) -> Vec<Work> {
    let shapes = [
        (shape(4, 700, 40), Metric::InnerProduct),
        (shape(20, 700, 40), Metric::Cosine),
        (shape(20, 700, 40), Metric::InnerProduct),
        (shape(129, 1 << 18, 32), Metric::Cosine),
    ];
    let device = stream.device();
    let work = |(shape, metric)| Work::new(&device, shape, metric).searched(search, stream);
    shapes.into_iter().map(work).collect()
}

/// A launch used to hold locks while it launched, copied and waited.
#[test]
fn a_subscriber_may_use_the_search_that_launches() {
    let _watchdog = watch();
    let (_sim, device, stream) = simulated(Gpu::H200);
    let search = Arc::new(ExactTopK::load(&device).unwrap());
    let works = Arc::new(works(&search, &stream));
    let (called, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let call = {
        let (search, works, stream) = (search.clone(), works.clone(), stream.clone());
        let (called, done, before) = (called.clone(), done.clone(), Mutex::new(0));
        move || {
            // Each one at some event, because all at each take too long.
            let at = called.fetch_add(1, Ordering::Relaxed);
            let filters = [Filter::Off, Filter::F16, Filter::Int8, Filter::Bf16];
            works[at % 3].check(&search, &stream, filters[at % 4]);
            let (now, mut before) = (search.counts().unwrap().candidates, before.lock().unwrap());
            assert!(now >= *before, "{now} {before}");
            *before = now;
            // A panic in a subscriber is caught.
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    tracing::subscriber::with_default(AtEvents::new(call), || {
        for (work, filter) in [
            (&works[0], Filter::Off),
            (&works[1], Filter::F16),
            (&works[2], Filter::Off),
            (&works[3], Filter::Auto),
            (&works[1], Filter::Int8),
            (&works[3], Filter::Auto),
        ] {
            // Events that the subscriber reaches first have no subscriber.
            tracing::callsite::rebuild_interest_cache();
            work.check(&search, &stream, filter);
        }
    });
    let called = called.load(Ordering::Relaxed);
    assert!(called > 20, "{called}");
    assert_eq!(done.load(Ordering::Relaxed), called);
}

/// Counts never fall, and none is lost.
#[test]
fn threads_search_and_count_at_the_same_time() {
    let _watchdog = watch();
    let (_sim, device, _) = simulated(Gpu::H200);
    let search = ExactTopK::load(&device).unwrap();
    // All queries have no direction, so they go to the fallback.
    let mut work = Work::new(&device, shape(20, 700, 40), Metric::Cosine);
    work.queries = DeviceBuffer::from_slice(&device, &vec![f16::NAN; 800]).unwrap();
    work.right = vec![u32::MAX; 60];
    const LAUNCHES: u64 = 12;
    let done = &AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for filter in [Filter::F16, Filter::Int8, Filter::Bf16] {
            let (search, work, stream) = (&search, &work, device.create_stream().unwrap());
            threads.spawn(move || {
                for _ in 0..LAUNCHES {
                    work.check(search, &stream, filter);
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        threads.spawn(|| {
            let mut before = search.counts().unwrap();
            while done.load(Ordering::Relaxed) < 3 {
                let now = search.counts().unwrap();
                assert!(
                    now.fallback_queries >= before.fallback_queries,
                    "{before:?} {now:?}"
                );
                before = now;
            }
        });
    });
    let counts = search.counts().unwrap();
    assert_eq!(counts.fallback_queries, 3 * LAUNCHES * 20);
}

/// A launch with `Filter::Auto` that leaves too many targets in 8 bits, after `fail`. Returns the error, or the path.
fn with_failure(bytes: u64, fail: impl FnOnce(&Sim)) -> Result<SearchPath, String> {
    let (sim, device, stream) = simulated_with(|sim| sim.gpu(Gpu::H200).total_memory_bytes(bytes));
    let search = ExactTopK::load(&device).unwrap();
    // Loads the kernels.
    let few = Work::new(&device, shape(20, 700, 40), Metric::Cosine);
    few.search(&search, &stream, Filter::F16).unwrap();
    let shape = shape(129, 1 << 18, 32);
    let mut work = Work::new(&device, shape, Metric::Cosine);
    // All targets are near each other, by the error of 8 bits.
    let center = noise(33, shape.dim);
    let near = |(at, value): (usize, f32)| center[at % shape.dim] + 0.02 * value;
    let targets = noise(34, shape.targets * shape.dim);
    let targets: Vec<f32> = targets.into_iter().enumerate().map(near).collect();
    work.targets.copy_from_host(&targets).unwrap();
    fail(&sim);
    let outcome = work.search(&search, &stream, Filter::Auto);
    // What was enqueued before a failure takes seconds.
    stream.synchronize().unwrap();
    match outcome {
        Ok((_, path)) => Ok(path),
        Err(error) => Err(error.to_string()),
    }
}

/// Only a lack of memory is a reason to search without the filter; a launch that fails is an error.
#[test]
fn the_error_is_the_cause() {
    let path = with_failure(72 << 20, |_| ()).unwrap();
    assert_eq!(path.filter, None, "{path:?}");
    assert!(path.reason.contains("no memory"), "{path:?}");
    // The conversion to 8 bits begins with launch 1, that to half precision with launch 10.
    for nth in [1, 10] {
        let fail = |sim: &Sim| sim.fail(Fail::call("cuLaunchKernel").nth(nth));
        let error = with_failure(1 << 30, fail).unwrap_err();
        assert!(error.contains("cuLaunchKernel"), "{nth}: {error}");
    }
}
