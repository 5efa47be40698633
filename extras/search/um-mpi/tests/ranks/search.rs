//! Searches over the ranks, on the simulator: the lists of one process, to the bit.

use crate::Case;
use crate::launch::Launcher;
use cuda_um::{Device, DeviceBuffer};
use cuda_um_sim::Builder;
use cuda_um_testkit::{Checked, open};
use half::f16;
use std::cell::RefCell;
use std::error::Error;
use std::ops::Range;
use std::time::{Duration, Instant};
use um_mpi::{Communicator, Mpi};
use um_search::{
    Filter, Metric, SearchError, Shard, ShardedSearch, TargetScalar, TopKShape, World,
};

pub const CASES: &[Case] = &[
    ("lists", lists, |launcher| {
        for ranks in [1, 2, 3, 4, 8] {
            launcher.succeeds(ranks);
        }
    }),
    ("differ", differ, |launcher| drop(launcher.succeeds(3))),
    ("lost", lost, lost_is_told),
    ("merge_cost", merge_cost, |launcher| {
        let outcome = launcher.succeeds(8);
        let cost = outcome.text.lines().filter(|line| line.contains("queries"));
        cost.for_each(|line| println!("{line}"));
    }),
];

/// Scores as bits, and indices.
type Lists = (Vec<u32>, Vec<u32>);

/// A simulator of this rank with two devices; the rank's device comes first.
fn devices(mpi: &Mpi) -> (Checked, Vec<Device>) {
    let sim = Checked::new(Builder::from_env().unwrap().devices(2).build().unwrap());
    let mut devices = open(&sim).devices().unwrap();
    let own = mpi.device_for_local_rank(devices.len()).unwrap();
    devices.rotate_left(own);
    assert_eq!(devices[0].ordinal() as usize, own);
    (sim, devices)
}

/// A search: the queries and targets of all ranks.
#[derive(Clone)]
struct Job<T> {
    dim: usize,
    k: usize,
    queries: Vec<f32>,
    targets: Vec<T>,
}

impl<T: TargetScalar> Job<T> {
    fn rows(&self) -> usize {
        self.targets.len() / self.dim
    }

    /// The lists of a search with these rows, each range on a device.
    fn search<W: World>(
        &self,
        search: &ShardedSearch<W>,
        devices: &[Device],
        ranges: &[Range<usize>],
        metric: Metric,
    ) -> um_search::Result<Lists> {
        let buffers: Vec<_> = devices
            .iter()
            .zip(ranges)
            .map(|(device, range)| {
                let rows = &self.targets[range.start * self.dim..range.end * self.dim];
                DeviceBuffer::from_slice(device, rows).unwrap()
            })
            .collect();
        let shards: Vec<_> = ranges
            .iter()
            .zip(&buffers)
            .map(|(range, rows)| Shard::new(range.start, rows.as_view()))
            .collect();
        let shape = TopKShape {
            queries: self.queries.len() / self.dim,
            targets: self.rows(),
            dim: self.dim,
            k: self.k,
        };
        let mut scores = vec![7.0_f32; shape.queries * shape.k];
        let mut indices = vec![7; scores.len()];
        search.search(
            shape,
            metric,
            Filter::Off,
            &self.queries,
            &shards,
            &mut scores,
            &mut indices,
        )?;
        Ok((scores.into_iter().map(f32::to_bits).collect(), indices))
    }
}

/// A search on the first devices.
fn load<W: World>(world: W, devices: &[Device]) -> ShardedSearch<W> {
    ShardedSearch::load(devices).unwrap().over(world)
}

fn noise(seed: u32, len: usize) -> Vec<f32> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    (0..len).scan(seed, |state, _| next(state)).collect()
}

/// The rows of each rank: even, with empty shards, in the reverse order, and all on the last rank.
fn splits(rows: usize, ranks: usize) -> Vec<Vec<Range<usize>>> {
    let even: Vec<_> = (0..ranks)
        .map(|rank| rank * rows / ranks..(rank + 1) * rows / ranks)
        .collect();
    let mut with_empty = even.clone();
    for pair in with_empty.chunks_exact_mut(2) {
        pair[1].start = pair[0].start;
        pair[0].end = pair[0].start;
    }
    let reversed = even.iter().rev().cloned().collect();
    let mut last = vec![0..0; ranks];
    last[ranks - 1] = 0..rows;
    vec![even, with_empty, reversed, last]
}

/// The same searches on one device, and on one and two devices of each rank.
struct Searches<'a> {
    devices: Vec<Device>,
    alone: ShardedSearch,
    over: [ShardedSearch<&'a Communicator<'a>>; 2],
}

impl Searches<'_> {
    fn check<T: TargetScalar>(
        &self,
        world: &Communicator,
        job: &Job<T>,
        metric: Metric,
        name: &str,
    ) {
        let devices = &self.devices;
        let all = 0..job.rows();
        let right = job
            .search(&self.alone, devices, std::slice::from_ref(&all), metric)
            .unwrap();
        for split in splits(job.rows(), world.size()) {
            let own = split[world.rank()].clone();
            let middle = own.start + own.len() / 3;
            let ranges = [vec![own.clone()], vec![own.start..middle, middle..own.end]];
            for (search, ranges) in self.over.iter().zip(ranges) {
                let found = job.search(search, devices, &ranges, metric).unwrap();
                assert!(found == right, "{name}, {metric:?}, {split:?} on {world:?}");
            }
        }
    }
}

fn lists(mpi: Mpi) {
    let (_sim, devices) = devices(&mpi);
    let world = mpi.world();
    let searches = Searches {
        alone: load((), &devices[..1]),
        over: [load(world, &devices[..1]), load(world, &devices)],
        devices,
    };
    let (dim, queries) = (20, noise(1, 5 * 20));
    let random = noise(2, 211 * dim);
    let mut with_nan = random.clone();
    with_nan
        .chunks_mut(dim)
        .step_by(3)
        .for_each(|row| row[7] = f32::NAN);
    let job = |k, targets| Job {
        dim,
        k,
        queries: queries.clone(),
        targets,
    };
    let check = |name, metric, k, targets| searches.check(world, &job(k, targets), metric, name);
    check("random", Metric::Cosine, 10, random.clone());
    check("random", Metric::InnerProduct, 10, random.clone());
    check("equal scores", Metric::Cosine, 10, vec![0.5; 211 * dim]);
    check("NaN rows", Metric::InnerProduct, 100, with_nan);
    check("longer than a shard", Metric::Cosine, 150, random.clone());
    check(
        "nothing to find",
        Metric::Cosine,
        9,
        vec![f32::NAN; 9 * dim],
    );
    let half = Job {
        dim,
        k: 10,
        queries: queries.clone(),
        targets: random.iter().map(|&value| f16::from_f32(value)).collect(),
    };
    searches.check(world, &half, Metric::Cosine, "f16");
    println!("done");
}

/// A world that changes what this rank sends in a call, counted from 0.
struct Changed<W, C>(W, RefCell<usize>, C);

impl<W: World, C: Fn(usize, &mut Vec<u8>)> World for Changed<W, C> {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Box<dyn Error + Send + Sync>> {
        let mut bytes = bytes.to_vec();
        self.2(*self.1.borrow(), &mut bytes);
        *self.1.borrow_mut() += 1;
        self.0.all_gather(&bytes)
    }
}

/// The rank 1 of three differs: each rank gets an error, and the next search works.
fn differ(mpi: Mpi) {
    let (_sim, devices) = devices(&mpi);
    let world = mpi.world();
    let right = Job {
        dim: 8,
        k: 5,
        queries: noise(3, 32),
        targets: noise(4, 90 * 8),
    };
    let own = splits(90, 3)[0][world.rank()].clone();
    let over = load(world, &devices[..1]);
    let search =
        |job: &Job<f32>, range: Range<usize>| job.search(&over, &devices, &[range], Metric::Cosine);
    let mut other = right.clone();
    other.queries[7] += f32::from(u8::from(world.rank() == 1));
    let error = search(&other, own.clone()).unwrap_err();
    let is_right = matches!(&error, SearchError::Disagreement { rank: 1, .. });
    assert!(is_right, "{error} on {world:?}");
    // The rows of a world of another size: those of rank 2 of four are nowhere.
    let of_four = splits(90, 4)[0][world.rank()].clone();
    let error = search(&right, of_four).unwrap_err();
    assert!(matches!(&error, SearchError::Value { .. }), "{error}");

    let all = right
        .search(
            &load((), &devices[..1]),
            &devices,
            std::slice::from_ref(&(0..90)),
            Metric::Cosine,
        )
        .unwrap();
    assert!(search(&right, own).unwrap() == all);
    println!("done");
}

/// Rank 1 ends between the agreement and the lists.
fn lost(mpi: Mpi) {
    let (_sim, devices) = devices(&mpi);
    let world = mpi.world();
    let job = Job {
        dim: 8,
        k: 5,
        queries: noise(3, 32),
        targets: noise(4, 90 * 8),
    };
    let own = splits(90, 3)[0][world.rank()].clone();
    let dies = |call: usize, _: &mut Vec<u8>| {
        if call == 1 && world.rank() == 1 {
            #[allow(unsafe_code, reason = "ends this process")]
            // SAFETY: a plain system call.
            unsafe {
                libc::_exit(0)
            }
        }
    };
    let found = job.search(
        &load(Changed(world, RefCell::new(0), dies), &devices[..1]),
        &devices,
        &[own],
        Metric::Cosine,
    );
    println!("rank {} learns: {}", world.rank(), found.unwrap_err());
}

fn lost_is_told(launcher: &Launcher) {
    let outcome = launcher.option("-disable-auto-cleanup").run(3);
    assert!(!outcome.success);
    outcome.says(" learns: all_gather between ranks failed: rank 1 of 3 (PID ");
}

/// Times of the exchange.
struct Timed<W> {
    world: W,
    in_calls: RefCell<Duration>,
    ended: RefCell<Instant>,
}

impl<W: World> World for Timed<W> {
    fn rank(&self) -> usize {
        self.world.rank()
    }

    fn size(&self) -> usize {
        self.world.size()
    }

    /// Without the wait for ranks that still search.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Box<dyn Error + Send + Sync>> {
        self.world.all_gather(&[])?;
        let started = Instant::now();
        let all = self.world.all_gather(bytes);
        *self.in_calls.borrow_mut() += started.elapsed();
        *self.ended.borrow_mut() = Instant::now();
        all
    }
}

/// What a search over ranks costs beside the search: the exchange, and the merge of the lists. Printed, and not checked.
fn merge_cost(mpi: Mpi) {
    let (_sim, devices) = devices(&mpi);
    let world = mpi.world();
    for queries in [1, 100, 1000] {
        let job = Job {
            dim: 4,
            k: 10,
            queries: noise(5, queries * 4),
            targets: noise(6, 80 * 4),
        };
        let own = splits(80, world.size())[0][world.rank()].clone();
        let (mut exchanges, mut merges) = (Vec::new(), Vec::new());
        let timed = Timed {
            world,
            in_calls: RefCell::default(),
            ended: RefCell::new(Instant::now()),
        };
        let search = load(&timed, &devices[..1]);
        for _ in 0..21 {
            timed.in_calls.take();
            job.search(
                &search,
                &devices,
                std::slice::from_ref(&own),
                Metric::Cosine,
            )
            .unwrap();
            merges.push(timed.ended.borrow().elapsed());
            exchanges.push(*timed.in_calls.borrow());
        }
        if world.rank() == 0 {
            exchanges.sort_unstable();
            merges.sort_unstable();
            // Of the best round, and of the middle one: with fewer cores than ranks, or other work on them, the ranks wait for a core.
            for (name, round) in [("best", 0), ("median", exchanges.len() / 2)] {
                let [exchange, merge] =
                    [&exchanges, &merges].map(|times| times[round].as_secs_f64() * 1e6);
                let share = (exchange + merge) / 100.0;
                println!(
                    "8 ranks, {queries} queries, k 10, {name} of 21: exchange {exchange:.0} us, merge {merge:.0} us: {share:.1} % of a batch of 10 ms"
                );
            }
        }
    }
    println!("done");
}
