//! The exact search: for any rows, its lists are bit-identical to those of the kernel without a filter.
//!
//! With `CUDA_UM_TEST_EXACT=large` the tests search many more rows, which needs a GPU.

mod paths;
mod values;

use crate::support::noise;
use cuda_um::{Device, DeviceBuffer, PinnedBuffer, Stream, UnifiedBuffer};
use cuda_um_testkit::device;
use half::{bf16, f16};
use um_search::{
    ExactTopK, Filter, Format, Metric, PreparedTargets, SearchBuffers, SearchCounts, SearchError,
    SearchPath, TargetScalar, TopKShape,
};

const FORMATS: [(Filter, Format); 3] = [
    (Filter::Bf16, Format::Bf16),
    (Filter::F16, Format::F16),
    (Filter::Int8, Format::Int8),
];

struct Bench {
    device: Device,
    stream: Stream,
    search: ExactTopK,
    /// Checks for leaks after everything else is dropped.
    _sim: Option<Box<dyn std::any::Any>>,
}

/// Scores as bits, and indices.
#[derive(Debug, PartialEq)]
struct Lists {
    scores: Vec<u32>,
    indices: Vec<u32>,
}

fn bench() -> Bench {
    let (sim, device, stream) = device();
    let search = ExactTopK::load(&device).unwrap();
    Bench {
        device,
        stream,
        search,
        _sim: sim.map(|sim| Box::new(sim) as _),
    }
}

fn is_large() -> bool {
    std::env::var("CUDA_UM_TEST_EXACT").is_ok_and(|size| size == "large")
}

fn shape(queries: usize, targets: usize, dim: usize, k: usize) -> TopKShape {
    TopKShape {
        queries,
        targets,
        dim,
        k,
    }
}

impl Bench {
    fn on_device<T: TargetScalar>(&self, elements: &[T]) -> DeviceBuffer<T> {
        DeviceBuffer::from_slice(&self.device, elements).unwrap()
    }

    fn search<T: TargetScalar>(
        &self,
        shape: TopKShape,
        queries: &DeviceBuffer<f32>,
        targets: &DeviceBuffer<T>,
        launch: impl FnOnce(SearchBuffers<'_, T>) -> um_search::Result<SearchPath>,
    ) -> (Lists, SearchPath) {
        let results = shape.queries * shape.k;
        let mut scores = self.on_device(&vec![7.0f32; results]);
        let mut indices = DeviceBuffer::from_slice(&self.device, &vec![7u32; results]).unwrap();
        let path = launch(SearchBuffers {
            queries: queries.view(..).unwrap(),
            targets: targets.view(..).unwrap(),
            scores: scores.view_mut(..).unwrap(),
            indices: indices.view_mut(..).unwrap(),
        })
        .unwrap();
        let (mut values, mut rows) = (vec![0.0; results], vec![0; results]);
        scores.copy_to_host(&mut values).unwrap();
        indices.copy_to_host(&mut rows).unwrap();
        let lists = Lists {
            scores: values.iter().map(|value| value.to_bits()).collect(),
            indices: rows,
        };
        (lists, path)
    }

    fn filtered<T: TargetScalar>(
        &self,
        shape: TopKShape,
        metric: Metric,
        filter: Filter,
        queries: &DeviceBuffer<f32>,
        targets: &DeviceBuffer<T>,
    ) -> Lists {
        let launch = |buffers: SearchBuffers<'_, _>| {
            self.search
                .launch(&self.stream, shape, metric, filter, buffers)
        };
        let (lists, path) = self.search(shape, queries, targets, launch);
        assert_eq!(path.filter.is_some(), filter != Filter::Off, "{path:?}");
        lists
    }

    fn prepared<T: TargetScalar>(
        &self,
        shape: TopKShape,
        prepared: &PreparedTargets,
        queries: &DeviceBuffer<f32>,
        targets: &DeviceBuffer<T>,
    ) -> Lists {
        let launch = |buffers: SearchBuffers<'_, _>| {
            self.search
                .launch_prepared(&self.stream, shape, prepared, buffers)
        };
        self.search(shape, queries, targets, launch).0
    }

    /// All formats and both metrics have bit-identical results to the kernel without a filter. Returns the counts of the
    /// filters.
    fn check<T: TargetScalar>(
        &self,
        what: &str,
        shape: TopKShape,
        queries: &[f32],
        targets: &[T],
    ) -> SearchCounts {
        let before = self.search.counts().unwrap();
        let (queries, targets) = (self.on_device(queries), self.on_device(targets));
        for metric in [Metric::Cosine, Metric::InnerProduct] {
            let right = self.filtered(shape, metric, Filter::Off, &queries, &targets);
            for (filter, _) in FORMATS {
                // Half precision overflows if rows are not scaled.
                if (metric, filter) == (Metric::InnerProduct, Filter::F16) && what == "huge" {
                    continue;
                }
                let found = self.filtered(shape, metric, filter, &queries, &targets);
                assert!(
                    found == right,
                    "{what}: {shape:?}, {metric:?}, {filter:?}: {}",
                    difference(&found, &right, shape.k)
                );
            }
        }
        self.search.counts().unwrap().since(before)
    }
}

impl Bench {
    /// The filter finds the target with the highest inner product with the query, and without the fallback.
    fn finds(&self, target: u32, filter: Filter, query: &[f32], targets: &[f32]) {
        let shape = shape(2, targets.len() / query.len(), query.len(), 1);
        let (queries, targets) = (self.on_device(&query.repeat(2)), self.on_device(targets));
        let metric = Metric::InnerProduct;
        let found = self.filtered(shape, metric, filter, &queries, &targets);
        assert_eq!(found.indices, [target, target]);
        let right = self.filtered(shape, metric, Filter::Off, &queries, &targets);
        assert_eq!(found, right);
        assert_eq!(self.search.counts().unwrap().fallback_queries, 0);
    }
}

fn difference(found: &Lists, right: &Lists, k: usize) -> String {
    let pairs = found.indices.iter().zip(&found.scores);
    let others = right.indices.iter().zip(&right.scores);
    let at = pairs.zip(others).position(|(a, b)| a != b).unwrap_or(0);
    let (a, b) = (found.scores[at], right.scores[at]);
    let (a, b) = (f32::from_bits(a), f32::from_bits(b));
    format!(
        "query {}, place {}: {} with {a:e}, not {} with {b:e}",
        at / k,
        at % k,
        found.indices[at],
        right.indices[at]
    )
}

/// Elements from -1 to 1.
fn rows(seed: u64, count: usize, dim: usize) -> Vec<f32> {
    noise(seed, count * dim)
}

#[test]
fn shapes_around_the_tiles() {
    let bench = bench();
    let mut shapes = vec![
        (1, 1, 1, 1),
        (3, 300, 5, 2),
        (2, 257, 2, 257),
        (130, 700, 64, 10),
        (7, 2100, 65, 33),
        (129, 530, 100, 5),
        (5, 1300, 127, 1024),
        (2, 1100, 130, 1000),
        (3, 300, 2047, 7),
        (1, 513, 2048, 300),
        (20, 17_000, 12, 10),
    ];
    if is_large() {
        shapes.extend([
            (1000, 100_000, 768, 10),
            (1, 100_000, 768, 10),
            (2500, 50_000, 96, 100),
            (300, 60_000, 2048, 1),
            (256, 70_000, 1000, 1024),
            (128, 200_000, 33, 64),
            (1030, 30_001, 1, 3),
        ]);
    }
    for (queries, targets, dim, k) in shapes {
        let shape = shape(queries, targets, dim, k);
        let (q, t) = (rows(1, queries, dim), rows(2, targets, dim));
        bench.check("random", shape, &q, &t);
        let narrow: Vec<f16> = t.iter().map(|value| f16::from_f32(*value)).collect();
        bench.check("random, f16", shape, &q, &narrow);
    }
}

#[test]
fn many_batches_of_queries() {
    let bench = bench();
    let queries = if is_large() { 100_000 } else { 5000 };
    let (targets, dim) = (300, 4);
    let shape = shape(queries, targets, dim, 2);
    let (q, t) = (rows(1, queries, dim), rows(2, targets, dim));
    let (q, t) = (bench.on_device(&q), bench.on_device(&t));
    let right = bench.filtered(shape, Metric::Cosine, Filter::Off, &q, &t);
    for filter in [Filter::F16, Filter::Int8] {
        let found = bench.filtered(shape, Metric::Cosine, filter, &q, &t);
        assert!(found == right, "{}", difference(&found, &right, shape.k));
    }
}

#[test]
fn the_filter_leaves_few_of_many() {
    let bench = bench();
    let shape = shape(20, 20_000, 96, 10);
    let (q, t) = (rows(3, 20, 96), rows(4, 20_000, 96));
    let counts = bench.check("random", shape, &q, &t);
    // Six searches of 20 queries each.
    assert_eq!(counts.fallback_queries, 0);
    assert!(counts.rescored >= 6 * 20 * 10, "{counts:?}");
    assert!(counts.rescored < 6 * 20 * 100, "{counts:?}");
    assert!(counts.candidates < 6 * 20 * 2000, "{counts:?}");
}

#[test]
fn prepared_targets_are_searched_again_and_updated() {
    let bench = bench();
    let (count, dim) = (1500, 50);
    let shape = shape(40, count, dim, 7);
    let q = bench.on_device(&rows(12, 40, dim));
    let mut t = rows(13, count, dim);
    for metric in [Metric::Cosine, Metric::InnerProduct] {
        for (_, format) in FORMATS {
            let mut targets = bench.on_device(&t);
            let mut prepared = bench
                .search
                .prepare(
                    &bench.stream,
                    targets.view(..).unwrap(),
                    dim,
                    metric,
                    format,
                )
                .unwrap();
            assert_eq!((prepared.rows(), prepared.dim()), (count, dim));
            assert_eq!((prepared.metric(), prepared.format()), (metric, format));
            let bytes = if format == Format::Int8 { 1 } else { 2 };
            assert!(prepared.size_bytes() > count * dim * bytes);
            assert!(prepared.size_bytes() < count * dim * bytes * 4);
            let right = bench.filtered(shape, metric, Filter::Off, &q, &targets);
            for _ in 0..2 {
                assert_eq!(bench.prepared(shape, &prepared, &q, &targets), right);
            }
            // Rows in the middle, then the last ones, then one row that gets a NaN and one that no longer has a NaN.
            for (first, changed, nan) in [(700, 300, true), (1399, 101, false), (700, 1, false)] {
                let part = first * dim..(first + changed) * dim;
                t[part.clone()].copy_from_slice(&rows(14 + first as u64, changed, dim));
                if nan {
                    t[first * dim] = f32::NAN;
                }
                targets.copy_from_host(&t).unwrap();
                let part = targets.view(part).unwrap();
                bench
                    .search
                    .update(&bench.stream, &mut prepared, first, part)
                    .unwrap();
                let right = bench.filtered(shape, metric, Filter::Off, &q, &targets);
                assert_eq!(bench.prepared(shape, &prepared, &q, &targets), right);
            }
        }
    }
}

#[test]
fn exact_rows_may_be_in_any_memory() {
    let bench = bench();
    let (count, dim) = (1200, 30);
    let shape = shape(10, count, dim, 6);
    let (q, t) = (rows(19, 10, dim), rows(20, count, dim));
    let (q, on_device) = (bench.on_device(&q), bench.on_device(&t));
    let right = bench.filtered(shape, Metric::Cosine, Filter::Off, &q, &on_device);
    let unified = UnifiedBuffer::from_slice(&bench.device, &t).unwrap();
    let mut pinned = PinnedBuffer::<f32>::zeroed(&bench.device, t.len()).unwrap();
    pinned.copy_from_host(&t).unwrap();
    for rows in [unified.view(..).unwrap(), pinned.view(..).unwrap()] {
        let prepared = bench
            .search
            .prepare(&bench.stream, rows, dim, Metric::Cosine, Format::F16)
            .unwrap();
        let launch = |buffers: SearchBuffers<'_, f32>| {
            let buffers = SearchBuffers {
                targets: rows,
                ..buffers
            };
            bench
                .search
                .launch_prepared(&bench.stream, shape, &prepared, buffers)
        };
        assert_eq!(bench.search(shape, &q, &on_device, launch).0, right);
    }
}
