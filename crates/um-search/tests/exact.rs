//! The exact search: for any rows, its lists are bit-identical to those of the kernel without a filter.
//!
//! With `CUDA_UM_TEST_EXACT=large` the tests search many more rows, which needs a GPU.

mod support;

use cuda_um::{Device, DeviceBuffer, PinnedBuffer, Stream, UnifiedBuffer};
use cuda_um_testkit::device;
use half::f16;
use support::noise;
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

/// The change that a test makes to some rows, selected by their number.
type Change<'a> = &'a dyn Fn(usize, &mut [f32]);

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
fn clusters_duplicates_and_sorted_rows() {
    let bench = bench();
    let (count, dim) = if is_large() {
        (100_000, 256)
    } else {
        (6000, 24)
    };
    let shape = shape(8, count, dim, 12);
    let q = rows(5, 8, dim);
    // Copies of the queries, each with a change of one ulp in one element.
    let mut clustered: Vec<f32> = q.iter().copied().cycle().take(count * dim).collect();
    for (row, elements) in clustered.chunks_mut(dim).enumerate() {
        let element = &mut elements[row * 7 % dim];
        *element = if row % 3 == 0 {
            element.next_up()
        } else {
            element.next_down()
        };
    }
    bench.check("clustered", shape, &q, &clustered);
    let one: Vec<f32> = rows(6, 1, dim);
    let same: Vec<f32> = one.iter().copied().cycle().take(count * dim).collect();
    let counts = bench.check("duplicates", shape, &q, &same);
    assert_eq!(counts.fallback_queries, 6 * 8, "more than can be kept");
    let mut sorted: Vec<Vec<f32>> = rows(7, count, dim)
        .chunks(dim)
        .map(<[f32]>::to_vec)
        .collect();
    let with_first = |row: &[f32]| row.iter().zip(&q).map(|(a, b)| a * b).sum::<f32>();
    sorted.sort_by(|a, b| with_first(a).total_cmp(&with_first(b)));
    bench.check("ascending", shape, &q, &sorted.concat());
    sorted.reverse();
    bench.check("descending", shape, &q, &sorted.concat());
}

#[test]
fn zeros_denormals_huge_and_nan() {
    let bench = bench();
    let (count, dim, k) = (900, 40, 20);
    let shape = shape(6, count, dim, k);
    let (q, t) = (rows(8, 6, dim), rows(9, count, dim));
    let with = |change: Change<'_>| {
        let (mut q, mut t) = (q.clone(), t.clone());
        q.chunks_mut(dim).enumerate().for_each(|(row, elements)| {
            if row % 3 == 1 {
                change(row, elements);
            }
        });
        t.chunks_mut(dim).enumerate().for_each(|(row, elements)| {
            if row % 11 == 3 {
                change(row, elements);
            }
        });
        (q, t)
    };
    let scale = |factor: f32| {
        move |_: usize, row: &mut [f32]| row.iter_mut().for_each(|value| *value *= factor)
    };
    let all = |value: f32| move |_: usize, row: &mut [f32]| row.fill(value);
    let at =
        |value: f32| move |row: usize, elements: &mut [f32]| elements[row % elements.len()] = value;
    let changes: [(&str, Change<'_>); 13] = [
        ("zero", &all(0.0)),
        ("negative zero", &all(-0.0)),
        ("denormal", &scale(1e-40)),
        ("tiny", &scale(1e-25)),
        ("small", &scale(1e-10)),
        ("large", &scale(1e4)),
        ("huge", &scale(1e15)),
        ("huge", &scale(1e25)),
        ("huge", &scale(3e38)),
        ("NaN", &at(f32::NAN)),
        ("all NaN", &all(f32::NAN)),
        ("infinite", &at(f32::INFINITY)),
        ("negative infinity", &at(f32::NEG_INFINITY)),
    ];
    for (what, change) in changes {
        let (q, t) = with(change);
        // Inner products of large rows also overflow in half precision.
        let what = if what == "large" { "huge" } else { what };
        bench.check(what, shape, &q, &t);
    }
    // The same value in all rows: lists with empty places.
    for value in [0.0, f32::NAN, 1e-42, 3e38, f32::INFINITY] {
        bench.check("huge", shape, &vec![value; 6 * dim], &t);
        bench.check("huge", shape, &q, &vec![value; count * dim]);
    }
}

#[test]
fn rows_of_very_different_sizes() {
    let bench = bench();
    let (count, dim) = (4000, 32);
    let shape = shape(9, count, dim, 15);
    let mut t = rows(10, count, dim);
    for (row, elements) in t.chunks_mut(dim).enumerate() {
        let factor = 2f32.powi((row * 31 % 40) as i32 - 30);
        elements.iter_mut().for_each(|value| *value *= factor);
    }
    bench.check("sizes", shape, &rows(11, 9, dim), &t);
}

/// Inner products with rows that have rounding errors in one direction: one target is slightly nearer than the others and
/// rounded down, and the others are rounded up. The difference is 1.74 times the bound, so only the full bound finds the
/// target.
#[test]
fn errors_as_large_as_the_bound() {
    let bench = bench();
    let (count, dim) = (3000, 768);
    let half_step = 1.0 / 256.0;
    let nudge = 1.0 / (1 << 20) as f32;
    let nearest = vec![1.5 + half_step - nudge; dim];
    let (low, high) = (1.5 - half_step + nudge, 1.5 + 3.0 * half_step + nudge);
    let mut t = Vec::with_capacity(count * dim);
    for row in 0..count {
        if row == 1777 {
            t.extend(&nearest);
        } else if row % 50 == 0 {
            t.extend((0..dim).map(|i| if i % 2 == 0 || i < 16 { low } else { high }));
        } else {
            t.extend(vec![1.0; dim]);
        }
    }
    bench.finds(1777, Filter::Bf16, &vec![1.0; dim], &t);
}

/// The same in 8 bits: the first element, which the queries do not use, makes a step of the rows 1.
#[test]
fn errors_in_8_bits_as_large_as_the_bound() {
    let bench = bench();
    let (count, dim) = (3000, 768);
    let nudge = 1.0 / 1024.0;
    let (low, high) = (9.5 + nudge, 11.5 + nudge);
    let mut t = Vec::with_capacity(count * dim);
    for row in 0..count {
        t.push(127.0);
        if row == 1777 {
            t.extend(vec![10.5 - nudge; dim - 1]);
        } else if row % 50 == 0 {
            t.extend((1..dim).map(|i| if i % 2 == 0 || i < 16 { low } else { high }));
        } else {
            t.extend(vec![1.0; dim - 1]);
        }
    }
    let mut query = vec![127.0; dim];
    query[0] = 0.0;
    bench.finds(1777, Filter::Int8, &query, &t);
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

#[test]
fn the_path_is_told() {
    let bench = bench();
    let kernels = bench.search.kernels();
    let (q, t) = (rows(15, 4, 8), rows(16, 600, 8));
    let (q, t) = (bench.on_device(&q), bench.on_device(&t));
    let small = shape(4, 600, 8, 3);
    let mut told = Vec::new();
    for filter in [Filter::Auto, Filter::Off, Filter::Bf16] {
        let launch = |buffers: SearchBuffers<'_, _>| {
            bench
                .search
                .launch(&bench.stream, small, Metric::Cosine, filter, buffers)
        };
        told.push(bench.search(small, &q, &t, launch).1);
    }
    assert_eq!(told[0].filter, None);
    assert!(told[0].reason.contains("targets"), "{:?}", told[0]);
    assert_eq!(told[1].reason, "the filter is off");
    assert_eq!(
        told[2].filter,
        kernels.ok().map(|kernels| (kernels, Format::Bf16))
    );
}

/// Queries near each other among 262,144 targets, of which some are at many distances from these queries: many within the error of 8
/// bits, and few within that of half precision.
fn a_dense_neighbourhood(
    queries: usize,
    dim: usize,
    clustered: usize,
) -> (TopKShape, Vec<f32>, Vec<f32>) {
    let shape = shape(queries, 1 << 18, dim, 10);
    let center = rows(20, 1, dim);
    let near = |row: &mut [f32], share: f32| {
        let pairs = row.iter_mut().zip(&center);
        pairs.for_each(|(value, center)| *value = center + *value * share);
    };
    let (mut q, mut t) = (rows(21, shape.queries, dim), rows(22, shape.targets, dim));
    q.chunks_mut(dim).for_each(|row| near(row, 0.02));
    for (at, row) in t.chunks_mut(dim).step_by(65).take(clustered).enumerate() {
        near(row, 0.25 * (at as f32 / clustered as f32).sqrt());
    }
    (shape, q, t)
}

#[test]
fn automatic_filters_begin_in_8_bits() {
    let bench = bench();
    let Ok(kernels) = bench.search.kernels() else {
        return;
    };
    let (shape, mut q, t) = a_dense_neighbourhood(16, 256, 0);
    // These go to the fallback in any format.
    q[..4 * 256].fill(f32::NAN);
    let (q, t) = (bench.on_device(&q), bench.on_device(&t));
    let right = bench.filtered(shape, Metric::Cosine, Filter::Off, &q, &t);
    let auto = |buffers: SearchBuffers<'_, _>| {
        let (stream, metric) = (&bench.stream, Metric::Cosine);
        bench
            .search
            .launch(stream, shape, metric, Filter::Auto, buffers)
    };
    for format in [Format::Int8, Format::F16] {
        let (found, path) = bench.search(shape, &q, &t, auto);
        assert!(found == right, "{}", difference(&found, &right, shape.k));
        assert_eq!(path.filter, Some((kernels, format)), "{path:?}");
    }
    let counts = bench.search.counts().unwrap();
    assert_eq!((counts.fallback_queries, counts.refiltered_queries), (8, 0));
}

#[test]
fn dense_neighbourhoods_are_filtered_again() {
    let bench = bench();
    let Ok(kernels) = bench.search.kernels() else {
        return;
    };
    let (shape, q, t) = a_dense_neighbourhood(160, 32, 4000);
    let (q, t) = (bench.on_device(&q), bench.on_device(&t));
    let right = bench.filtered(shape, Metric::Cosine, Filter::Off, &q, &t);
    let auto = |buffers: SearchBuffers<'_, _>| {
        let (stream, metric) = (&bench.stream, Metric::Cosine);
        bench
            .search
            .launch(stream, shape, metric, Filter::Auto, buffers)
    };
    // The second launch does not try 8 bits.
    let mut told: Vec<SearchCounts> = Vec::new();
    for _ in 0..2 {
        let (found, path) = bench.search(shape, &q, &t, auto);
        assert!(found == right, "{}", difference(&found, &right, shape.k));
        assert_eq!(path.filter, Some((kernels, Format::F16)), "{path:?}");
        told.push(bench.search.counts().unwrap());
    }
    assert!(told[0].refiltered_queries > 128, "{told:?}");
    assert_eq!(told[0].refiltered_queries, told[1].refiltered_queries);
    assert_eq!((told[0].fallback_queries, told[1].fallback_queries), (0, 0));
}

#[test]
fn impossible_requests_are_refused() {
    let bench = bench();
    let q = bench.on_device(&rows(17, 2, 4));
    let t = bench.on_device(&rows(18, 30, 4));
    let mut scores = bench.on_device(&[0.0f32; 6]);
    let mut indices = DeviceBuffer::from_slice(&bench.device, &[0u32; 6]).unwrap();
    let (search, stream) = (&bench.search, &bench.stream);
    let view = t.view(..).unwrap();
    let mut prepared = search
        .prepare(stream, view, 4, Metric::Cosine, Format::Bf16)
        .unwrap();
    let mut refused = |shape, prepared: Option<&PreparedTargets>| {
        let buffers = SearchBuffers {
            queries: q.view(..).unwrap(),
            targets: t.view(..).unwrap(),
            scores: scores.view_mut(..).unwrap(),
            indices: indices.view_mut(..).unwrap(),
        };
        let launched = match prepared {
            Some(prepared) => search.launch_prepared(stream, shape, prepared, buffers),
            None => search.launch(stream, shape, Metric::Cosine, Filter::Bf16, buffers),
        };
        launched.unwrap_err()
    };
    for (shape, parameter) in [
        (shape(2, 30, 0, 3), "dim"),
        (shape(2, 30, 4, 0), "k"),
        (shape(2, 30, 4, 31), "k"),
    ] {
        let error = refused(shape, None);
        assert!(
            matches!(error, SearchError::Value { parameter: named, .. } if named == parameter),
            "{error}"
        );
    }
    assert_eq!(
        refused(shape(3, 30, 4, 2), None).to_string(),
        "exact_top_k: `queries` has 8 elements, 12 are needed"
    );
    // The same targets with another shape.
    let error = refused(shape(4, 60, 2, 1), Some(&prepared));
    assert!(error.to_string().contains("scores"), "{error}");
    let error = refused(shape(4, 60, 2, 1), None);
    assert!(error.to_string().contains("scores"), "{error}");
    let six = shape(2, 30, 4, 3);
    let other = search
        .prepare(
            stream,
            view.slice(..80).unwrap(),
            4,
            Metric::Cosine,
            Format::F16,
        )
        .unwrap();
    let error = refused(six, Some(&other)).to_string();
    assert!(error.contains("prepared targets"), "{error}");
    for (dim, parameter) in [(0, "dim"), (1 << 17, "dim")] {
        let error = search
            .prepare(stream, view, dim, Metric::Cosine, Format::Bf16)
            .unwrap_err();
        assert!(matches!(error, SearchError::Value { parameter: named, .. } if named == parameter));
    }
    assert!(
        search
            .prepare(stream, view, 7, Metric::Cosine, Format::Bf16)
            .is_err()
    );
    for (first, elements) in [(30, 4), (29, 8), (0, 3)] {
        let part = view.slice(..elements).unwrap();
        assert!(search.update(stream, &mut prepared, first, part).is_err());
    }
}
