//! The exact search with rows in 16 bits, with few queries, and within a limit of device memory: the lists are bit-identical to
//! those of the kernel without a filter on the same numbers in single precision.

mod limits;

use crate::support::noise;
use cuda_um::{Device, DeviceBuffer, Event, PinnedBuffer, RegisteredBuffer, Runtime, Stream, View};
use cuda_um_sim::Sim;
use cuda_um_testkit::{device, on_gpu};
use half::{bf16, f16};
use um_search::{
    CosineTopK, ExactTopK, Filter, Format, Metric, Scalar, SearchBuffers, SearchError,
    TargetScalar, TopKShape,
};

const FILTERS: [Filter; 3] = [Filter::Off, Filter::Bf16, Filter::F16];
const METRICS: [Metric; 2] = [Metric::Cosine, Metric::InnerProduct];

/// Scores as bits, and indices.
type Lists = (Vec<u32>, Vec<u32>);

fn shape(queries: usize, targets: usize, dim: usize, k: usize) -> TopKShape {
    TopKShape {
        queries,
        targets,
        dim,
        k,
    }
}

fn on_device<T: TargetScalar>(device: &Device, elements: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(device, elements).unwrap()
}

/// The lists that `launch` writes.
fn lists<T: TargetScalar, Q: TargetScalar>(
    device: &Device,
    shape: TopKShape,
    (queries, targets): (View<'_, Q>, View<'_, T>),
    launch: impl FnOnce(SearchBuffers<'_, T, Q>),
) -> Lists {
    let results = shape.queries * shape.k;
    let mut scores = on_device(device, &vec![7.0f32; results]);
    let mut indices = DeviceBuffer::from_slice(device, &vec![7u32; results]).unwrap();
    launch(SearchBuffers {
        queries,
        targets,
        scores: scores.view_mut(..).unwrap(),
        indices: indices.view_mut(..).unwrap(),
    });
    let (mut values, mut rows) = (vec![0.0f32; results], vec![0; results]);
    scores.copy_to_host(&mut values).unwrap();
    indices.copy_to_host(&mut rows).unwrap();
    (values.iter().map(|value| value.to_bits()).collect(), rows)
}

struct Bench {
    device: Device,
    stream: Stream,
    search: ExactTopK,
}

impl Bench {
    fn on(device: Device, stream: Stream) -> Self {
        let search = ExactTopK::load(&device).unwrap();
        Self {
            device,
            stream,
            search,
        }
    }

    fn found<T: TargetScalar, Q: TargetScalar>(
        &self,
        shape: TopKShape,
        (metric, filter): (Metric, Filter),
        queries: &DeviceBuffer<Q>,
        targets: &DeviceBuffer<T>,
    ) -> Lists {
        let rows = (queries.view(..).unwrap(), targets.view(..).unwrap());
        lists(&self.device, shape, rows, |buffers| {
            let (search, stream) = (&self.search, &self.stream);
            search
                .launch(stream, shape, metric, filter, buffers)
                .unwrap();
        })
    }

    /// All filters and metrics give the lists of the kernel without a filter for the widened rows.
    fn check<T: TargetScalar, Q: TargetScalar>(
        &self,
        shape: TopKShape,
        queries: &[Q],
        targets: &[T],
    ) {
        let (mut wide_queries, mut wide_targets) = (Vec::new(), Vec::new());
        let wide_queries = on_device(&self.device, Q::widen(queries, &mut wide_queries));
        let wide_targets = on_device(&self.device, T::widen(targets, &mut wide_targets));
        let (queries, targets) = (
            on_device(&self.device, queries),
            on_device(&self.device, targets),
        );
        for metric in METRICS {
            let right = self.found(shape, (metric, Filter::Off), &wide_queries, &wide_targets);
            for filter in FILTERS {
                let found = self.found(shape, (metric, filter), &queries, &targets);
                assert!(found == right, "{shape:?} {metric:?} {filter:?}");
            }
        }
    }
}

fn narrow<T: TargetScalar>(numbers: &[f32], narrow: fn(f32) -> T) -> Vec<T> {
    numbers.iter().map(|number| narrow(*number)).collect()
}

#[test]
fn rows_in_sixteen_bits_are_widened_exactly() {
    let (_sim, device, stream) = device();
    let bench = Bench::on(device, stream);
    // Odd sizes: rows that are not aligned to four elements, more than a tile of queries, lists longer than a block's targets.
    for (queries, targets, dim, k) in [
        (1, 300, 3, 1),
        (131, 700, 65, 7),
        (5, 1300, 127, 1024),
        (9, 900, 768, 33),
    ] {
        let shape = shape(queries, targets, dim, k);
        let (q, t) = (noise(1, queries * dim), noise(2, targets * dim));
        let (q16, t16) = (narrow(&q, f16::from_f32), narrow(&t, f16::from_f32));
        let (qb, tb) = (narrow(&q, bf16::from_f32), narrow(&t, bf16::from_f32));
        bench.check(shape, &q, &tb);
        bench.check(shape, &q16, &t);
        bench.check(shape, &q16, &t16);
        bench.check(shape, &qb, &t16);
        bench.check(shape, &qb, &tb);
    }
}

#[test]
fn special_values_in_sixteen_bits() {
    let (_sim, device, stream) = device();
    let bench = Bench::on(device, stream);
    let (targets, dim) = (800, 20);
    let shape = shape(4, targets, dim, 9);
    for value in [f32::NAN, f32::INFINITY, 0.0, -0.0, 1e-40, 6e-8, 3e38, 6e4] {
        let (mut q, mut t) = (noise(3, 4 * dim), noise(4, targets * dim));
        q[dim + 3] = value;
        t.chunks_mut(dim)
            .step_by(13)
            .for_each(|row| row.fill(value));
        let (qb, tb) = (narrow(&q, bf16::from_f32), narrow(&t, bf16::from_f32));
        // In half precision, inner products with numbers beyond its range have infinite rows in the tiles.
        if value.abs() < 1e30 {
            bench.check(shape, &narrow(&q, f16::from_f32), &tb);
        }
        let wide = on_device(&bench.device, bf16::widen(&qb, &mut Vec::new()));
        let (q, t) = (on_device(&bench.device, &qb), on_device(&bench.device, &tb));
        for filter in [Filter::Off, Filter::Bf16] {
            let of = (Metric::Cosine, filter);
            assert_eq!(
                bench.found(shape, of, &q, &t),
                bench.found(shape, of, &wide, &t),
                "{value} {filter:?}"
            );
        }
        let of = |filter| bench.found(shape, (Metric::Cosine, filter), &q, &t);
        assert_eq!(of(Filter::Bf16), of(Filter::Off), "{value}");
    }
}

#[test]
fn the_kernel_without_a_filter_takes_bf16() {
    let (_sim, device, stream) = device();
    let kernel = CosineTopK::load(&device).unwrap();
    let shape = shape(70, 500, 33, 5);
    let (q, t) = (
        noise(5, 70 * 33),
        narrow(&noise(6, 500 * 33), bf16::from_f32),
    );
    let wide = on_device(&device, bf16::widen(&t, &mut Vec::new()));
    let (q, t) = (on_device(&device, &q), on_device(&device, &t));
    let with = |run: &dyn Fn(SearchBuffers<'_, bf16>)| {
        lists(
            &device,
            shape,
            (q.view(..).unwrap(), t.view(..).unwrap()),
            run,
        )
    };
    let found = with(&|b| {
        kernel
            .launch(&stream, shape, b.queries, b.targets, b.scores, b.indices)
            .unwrap()
    });
    let right = with(&|b| {
        kernel
            .launch(&stream, shape, b.queries, &wide, b.scores, b.indices)
            .unwrap()
    });
    assert_eq!(found, right);
}

/// With at most 12 queries, the kernel without a filter reads each target once: the lists are those of larger batches.
#[test]
fn few_queries_have_the_lists_of_many() {
    let (_sim, device, stream) = device();
    let bench = Bench::on(device, stream);
    let targets = 16_500;
    for (dim, k) in [(128, 10), (7, 40), (33, 300)] {
        let mut t = noise(13, targets * dim);
        let q = noise(14, 13 * dim);
        // Equal scores, NaN and zeros.
        for row in (5..targets).step_by(997) {
            t[row * dim..][..dim].copy_from_slice(&q[..dim]);
        }
        t[300 * dim] = f32::NAN;
        t[301 * dim..][..dim].fill(0.0);
        let half = narrow(&t, f16::from_f32);
        let brain = narrow(&t, bf16::from_f32);
        for few in [1, 4, 12] {
            few_of_many(&bench, (few, k), dim, &q, &t);
        }
        few_of_many(&bench, (5, k), dim, &q, &half);
        few_of_many(&bench, (3, k), dim, &q, &brain);
    }
}

fn few_of_many<T: TargetScalar>(
    bench: &Bench,
    (few, k): (usize, usize),
    dim: usize,
    queries: &[f32],
    targets: &[T],
) {
    let targets = on_device(&bench.device, targets);
    let count = targets.len() / dim;
    let (all, some) = (
        on_device(&bench.device, queries),
        on_device(&bench.device, &queries[..few * dim]),
    );
    for metric in METRICS {
        let right = bench.found(
            shape(13, count, dim, k),
            (metric, Filter::Off),
            &all,
            &targets,
        );
        let found = bench.found(
            shape(few, count, dim, k),
            (metric, Filter::Off),
            &some,
            &targets,
        );
        let right = (&right.0[..few * k], &right.1[..few * k]);
        assert!(
            (&found.0[..], &found.1[..]) == right,
            "{few} {k} {dim} {metric:?}"
        );
        let auto = bench.found(
            shape(few, count, dim, k),
            (metric, Filter::Auto),
            &some,
            &targets,
        );
        assert!(auto == found, "{few} {k} {dim} {metric:?}");
    }
}

/// The predicted times of a simulator's GPU: arithmetic without a filter, and only the needed rows with one.
#[test]
fn searches_have_predicted_times() {
    if on_gpu() {
        return;
    }
    let (_sim, device, stream) = device();
    let bench = Bench::on(device, stream);
    let shape = shape(128, 30_000, 64, 5);
    let q = on_device(&bench.device, &noise(15, 128 * 64));
    let mut t = PinnedBuffer::<f32>::zeroed(&bench.device, 30_000 * 64).unwrap();
    t.copy_from_host(&noise(16, 30_000 * 64)).unwrap();
    let rows = t.view(..).unwrap();
    let on_device = on_device(&bench.device, &noise(16, 30_000 * 64));
    let (search, stream) = (&bench.search, &bench.stream);
    let prepared = search
        .prepare(
            stream,
            on_device.view(..).unwrap(),
            64,
            Metric::Cosine,
            Format::F16,
        )
        .unwrap();
    let time = |targets, launch: &dyn Fn(SearchBuffers<'_, f32>)| {
        let mut taken = std::time::Duration::ZERO;
        lists(
            &bench.device,
            shape,
            (q.view(..).unwrap(), targets),
            |buffers| {
                let begin = Event::timed(stream).unwrap();
                launch(buffers);
                let end = Event::timed(stream).unwrap();
                end.synchronize().unwrap();
                taken = end.elapsed_since(&begin).unwrap();
            },
        );
        taken.as_secs_f64()
    };
    let without = time(on_device.view(..).unwrap(), &|buffers| {
        search
            .launch(stream, shape, Metric::Cosine, Filter::Off, buffers)
            .unwrap();
    });
    // One tile of queries at 45 TFLOP/s.
    assert!(
        without > 2.0 * 128.0 * 30_000.0 * 64.0 / 4.6e13,
        "{without}"
    );
    let with = time(rows, &|buffers| {
        search
            .launch_prepared(stream, shape, &prepared, buffers)
            .unwrap();
    });
    // The link needs longer for all rows.
    let all_rows = (30_000 * 64 * 4) as f64 / 64e9;
    assert!(with < all_rows, "{with} {all_rows}");
}
