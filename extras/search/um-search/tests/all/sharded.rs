//! Searches over shards, of one process and of several: the lists are those of one device with all rows, bit for bit.

mod failures;
mod ranks;
mod times;
mod world;

use crate::support::noise;
use cuda_um::{Device, DeviceBuffer, Runtime};
use cuda_um_sim::{Builder, Gpu};
use cuda_um_testkit::{Checked, open};
use half::f16;
use std::ops::Range;
use um_search::{
    ExactTopK, Filter, Format, Metric, SearchBuffers, SearchPath, Shard, ShardedSearch,
    TargetScalar, TopKShape, World,
};

const METRICS: [Metric; 2] = [Metric::Cosine, Metric::InnerProduct];

/// A simulator with eight devices, on any machine: few have so many.
fn eight() -> (Checked, Vec<Device>) {
    let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
    let sim = Checked::new(builder.gpu(Gpu::H200).devices(8).build().unwrap());
    let devices = open(&sim).devices().unwrap();
    (sim, devices)
}

/// Scores as bits, and indices.
type Lists = (Vec<u32>, Vec<u32>);

/// Queries and targets.
#[derive(Clone)]
struct Case<T> {
    name: &'static str,
    dim: usize,
    k: usize,
    queries: Vec<f32>,
    targets: Vec<T>,
}

impl<T: TargetScalar> Case<T> {
    fn shape(&self) -> TopKShape {
        TopKShape {
            queries: self.queries.len() / self.dim,
            targets: self.targets.len() / self.dim,
            dim: self.dim,
            k: self.k,
        }
    }

    /// The lists of one device, without a filter.
    fn right(&self, device: &Device, metric: Metric) -> Lists {
        let (shape, stream) = (self.shape(), device.create_stream().unwrap());
        let places = shape.queries * shape.k;
        let queries = DeviceBuffer::from_slice(device, &self.queries).unwrap();
        let targets = DeviceBuffer::from_slice(device, &self.targets).unwrap();
        let mut scores = DeviceBuffer::<f32>::zeroed(device, places).unwrap();
        let mut indices = DeviceBuffer::<u32>::zeroed(device, places).unwrap();
        let buffers = SearchBuffers {
            queries: queries.as_view(),
            targets: targets.as_view(),
            scores: scores.as_view_mut(),
            indices: indices.as_view_mut(),
        };
        let search = ExactTopK::load(device).unwrap();
        search
            .launch(&stream, shape, metric, Filter::Off, buffers)
            .unwrap();
        let (mut values, mut rows) = (vec![0.0; places], vec![0; places]);
        scores.copy_to_host(&mut values).unwrap();
        indices.copy_to_host(&mut rows).unwrap();
        (bits(&values), rows)
    }

    /// The rows of a range on a device.
    fn rows(&self, device: &Device, range: &Range<usize>) -> DeviceBuffer<T> {
        let elements = &self.targets[range.start * self.dim..range.end * self.dim];
        DeviceBuffer::from_slice(device, elements).unwrap()
    }

    /// The lists of a search over shards with these ranges of rows, each on a device.
    fn over(
        &self,
        world: impl World,
        devices: &[Device],
        ranges: &[Range<usize>],
        metric: Metric,
        how: How,
    ) -> um_search::Result<Lists> {
        let devices = &devices[..ranges.len()];
        let search = ShardedSearch::load(devices)?.over(world);
        self.with(&search, devices, ranges, metric, how)
    }

    /// The same with kernels that are loaded.
    fn with(
        &self,
        search: &ShardedSearch<impl World>,
        devices: &[Device],
        ranges: &[Range<usize>],
        metric: Metric,
        how: How,
    ) -> um_search::Result<Lists> {
        let rows = devices.iter().zip(ranges);
        let rows: Vec<_> = rows
            .map(|(device, range)| self.rows(device, range))
            .collect();
        let shards = rows.iter().zip(ranges);
        let mut shards: Vec<_> = shards
            .map(|(rows, range)| Shard::new(range.start, rows.as_view()))
            .collect();
        let (filter, prepared) = match how {
            How::With(filter) => (filter, Vec::new()),
            How::Prepared(format) => {
                let prepared = search.prepare(&shards, self.dim, metric, format)?;
                (Filter::Off, prepared)
            }
        };
        for (shard, prepared) in shards.iter_mut().zip(&prepared) {
            shard.prepared = prepared.as_ref();
        }
        let (paths, lists) = self.search(search, &shards, metric, filter)?;
        for (path, range) in paths.iter().zip(ranges) {
            let filters = filter != Filter::Off || !prepared.is_empty();
            assert_eq!(
                path.filter.is_some(),
                filters && !range.is_empty(),
                "{path:?}"
            );
        }
        Ok(lists)
    }

    /// The paths and lists of a search over these shards.
    fn search(
        &self,
        search: &ShardedSearch<impl World>,
        shards: &[Shard<'_, T>],
        metric: Metric,
        filter: Filter,
    ) -> um_search::Result<(Vec<SearchPath>, Lists)> {
        let shape = self.shape();
        let places = shape.queries * shape.k;
        let (mut scores, mut indices) = (vec![7.0; places], vec![7; places]);
        let (best, at) = (&mut scores[..], &mut indices[..]);
        let paths = search.search(shape, metric, filter, &self.queries, shards, best, at)?;
        Ok((paths, (bits(&scores), indices)))
    }
}

/// The way of a search.
#[derive(Clone, Copy, Debug)]
enum How {
    With(Filter),
    Prepared(Format),
}

const PLAIN: How = How::With(Filter::Off);

fn bits(scores: &[f32]) -> Vec<u32> {
    scores.iter().map(|score| score.to_bits()).collect()
}

/// Random rows, rows with equal scores, rows of NaN, and lists that are longer than most shards.
fn cases() -> Vec<Case<f32>> {
    let (dim, targets) = (20, 400);
    let random = noise(41, targets * dim);
    let queries = noise(42, 5 * dim);
    let equal = noise(43, dim).repeat(targets);
    let mut holes = random.clone();
    for (row, elements) in holes.chunks_mut(dim).enumerate() {
        match row % 4 {
            0 => elements[row % dim] = f32::NAN,
            1 => elements.fill(0.0),
            2 => elements.copy_from_slice(&random[..dim]),
            _ => {}
        }
    }
    let all_nan = vec![f32::NAN; targets * dim];
    let case = |name, k, targets: &[f32]| Case {
        name,
        dim,
        k,
        queries: queries.clone(),
        targets: targets.to_vec(),
    };
    vec![
        case("random", 10, &random),
        case("equal", 70, &equal),
        case("NaN, zeros and copies", 90, &holes),
        case("only NaN", 3, &all_nan),
        case("a whole list", targets, &random),
    ]
}

/// Splits of 400 rows: even ones, with empty shards, with a shard of one row, in other orders.
fn splits() -> Vec<Vec<Range<usize>>> {
    let even = |count: usize| -> Vec<_> {
        (0..count)
            .map(|shard| 400 * shard / count..400 * (shard + 1) / count)
            .collect()
    };
    let turned = |count: usize| {
        let mut ranges = even(count);
        ranges.reverse();
        ranges.swap(0, count / 2);
        ranges
    };
    let mut splits: Vec<_> = [1, 2, 3, 4, 8].map(even).into();
    splits.extend([2, 3, 4, 8].map(turned));
    splits.push(vec![0..0, 0..400]);
    splits.push(vec![399..400, 0..399, 17..17]);
    splits.push(vec![400..400, 100..101, 101..400, 0..100]);
    splits
}

#[test]
fn any_split_in_any_order_has_the_lists_of_one_device() {
    let (_sim, devices) = eight();
    let cases = METRICS.map(|metric| {
        let right = |case: Case<f32>| (case.right(&devices[0], metric), case);
        (metric, cases().into_iter().map(right).collect::<Vec<_>>())
    });
    for split in splits() {
        let devices = &devices[..split.len()];
        let search = ShardedSearch::load(devices).unwrap();
        for (metric, cases) in &cases {
            for (right, case) in cases {
                let found = case.with(&search, devices, &split, *metric, PLAIN);
                assert!(
                    found.unwrap() == *right,
                    "{}, {metric:?}, {split:?}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn every_filter_has_the_lists_of_one_device() {
    let (_sim, devices) = eight();
    for case in [0, 2].map(|number| cases().swap_remove(number)) {
        let right = case.right(&devices[0], Metric::Cosine);
        for how in [
            How::With(Filter::F16),
            How::With(Filter::Int8),
            How::Prepared(Format::Bf16),
        ] {
            for split in [vec![150..400, 0..0, 0..150], vec![0..400]] {
                let found = case.over((), &devices, &split, Metric::Cosine, how);
                assert!(found.unwrap() == right, "{}, {how:?}, {split:?}", case.name);
            }
        }
    }
}

/// In 16 bits, with a number of elements for which rows are not aligned, and more shards than devices.
#[test]
fn rows_in_16_bits_and_two_shards_of_a_device() {
    let (_sim, devices) = eight();
    let (dim, targets) = (13, 400);
    let elements = noise(44, targets * dim);
    let case = Case {
        name: "f16",
        dim,
        k: 25,
        queries: noise(45, 3 * dim),
        targets: elements.into_iter().map(f16::from_f32).collect(),
    };
    let twice = [0, 1, 0].map(|number| devices[number].clone());
    let right = case.right(&devices[0], Metric::Cosine);
    let split = [201..400, 0..7, 7..201];
    let found = case.over((), &twice, &split, Metric::Cosine, PLAIN);
    assert!(found.unwrap() == right);
}

fn runtime_of(devices: &[Device]) -> &Runtime {
    devices[0].runtime()
}
