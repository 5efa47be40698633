//! 3 MiB of managed memory (1000 vectors of 3 KiB) that the host writes and a kernel reads. Without advice and prefetch the
//! kernel moves them by faults; with a prefetch, or with the three-role recipe, there are no faults.

use cuda_um::{Advice, Device, DeviceBuffer, Event, Location, Stream, UnifiedBuffer};
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;
use um_backend::profile::MigrationCounter;
use um_examples::Failure;
use um_examples::machine::{Machine, example, median, us};
use um_kernels::{CosineTopK, Scale, TopKShape, cosine_top_k_cpu};

const ROUNDS: usize = 9;
const SHAPE: TopKShape = TopKShape {
    queries: 1,
    targets: 1000,
    dim: 768,
    k: 10,
};

#[derive(Clone, Copy, PartialEq)]
enum Hints {
    None,
    Prefetch,
    ThreeRoles,
}

fn main() -> ExitCode {
    example("prefetch_and_advice", |machine| {
        let stream = machine.device().create_stream()?;
        // CUPTI does not report managed memory that was allocated before its first start.
        let uncounted = MigrationCounter::start(machine.device().runtime()).err();
        let mut table = format!(
            "{:<24}{:>14}{:>16}{:>14}\n",
            "", "median", "device faults", "host faults"
        );
        let scale = Scale::load(machine.device())?;
        for (name, hints) in [
            ("scale, no hints", Hints::None),
            ("scale, prefetched", Hints::Prefetch),
        ] {
            let mut input = UnifiedBuffer::zeroed(machine.device(), SHAPE.targets * SHAPE.dim)?;
            let mut output = DeviceBuffer::zeroed(machine.device(), input.len())?;
            table += &measure(machine, name, |round| {
                scale_round(&mut input, &mut output, round, hints, &scale, &stream)
            })?;
        }
        let search = CosineTopK::load(machine.device())?;
        for (name, hints) in [
            ("search, no hints", Hints::None),
            ("search, prefetched", Hints::Prefetch),
            ("search, three roles", Hints::ThreeRoles),
        ] {
            let mut vectors = Vectors::new(machine.device(), hints)?;
            table += &measure(machine, name, |round| {
                vectors.round(round, hints, &search, &stream)
            })?;
        }
        table += "Times are between two events around the launch. Faults are the mean of a round, in which the host\n\
                  writes, the kernel reads, and the host reads the result. Every result was compared with the CPU's.";
        if let Some(why) = uncounted {
            write!(table, "\n? = not counted: {why}")?;
        }
        Ok(table)
    })
}

/// A row of the table.
fn measure(
    machine: &Machine,
    name: &str,
    mut round: impl FnMut(usize) -> Result<Duration, Failure>,
) -> Result<String, Failure> {
    // Counting costs time on a GPU, so the timed rounds and the counted rounds are different.
    let times = (0..ROUNDS).map(&mut round).collect::<Result<_, _>>()?;
    let counter = MigrationCounter::start(machine.device().runtime());
    (0..ROUNDS).try_for_each(|index| round(ROUNDS + index).map(drop))?;
    let counted = counter.and_then(|counter| counter.read()).ok();
    let show = |faults: Option<u64>| {
        faults.map_or_else(
            || "?".into(),
            |count| format!("{:.1}", count as f64 / ROUNDS as f64),
        )
    };
    let (device, host) = (
        show(counted.map(|counts| counts.gpu_faults)),
        show(counted.map(|counts| counts.cpu_faults)),
    );
    let mut row = String::new();
    writeln!(
        row,
        "{name:<24}{:>14}{device:>16}{host:>14}",
        us(median(times))
    )?;
    Ok(row)
}

/// Different numbers in every round, so that an old result is detected.
fn values(count: usize, round: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + round * 104_729) % 1999) as f32 - 999.0)
        .collect()
}

fn scale_round(
    input: &mut UnifiedBuffer<f32>,
    output: &mut DeviceBuffer<f32>,
    round: usize,
    hints: Hints,
    scale: &Scale,
    stream: &Stream,
) -> Result<Duration, Failure> {
    let numbers = values(input.len(), round);
    input.host_mut()?.copy_from_slice(&numbers);
    if hints == Hints::Prefetch {
        input
            .prefetch_on(Location::Device(stream.device().ordinal()), stream)?
            .require()?;
    }
    let before = Event::timed(stream)?;
    scale.launch(stream, &*input, &mut *output, 0.5)?;
    let time = Event::timed(stream)?.elapsed_since(&before)?;
    let mut scaled = vec![0.0; numbers.len()];
    output.copy_to_host(&mut scaled)?;
    match scaled
        .iter()
        .zip(&numbers)
        .position(|(found, number)| *found != number * 0.5)
    {
        None => Ok(time),
        Some(at) => {
            Err(format!("element {at} is {}, not {}", scaled[at], numbers[at] * 0.5).into())
        }
    }
}

struct Vectors {
    queries: UnifiedBuffer<f32>,
    targets: UnifiedBuffer<f32>,
    scores: UnifiedBuffer<f32>,
    indices: UnifiedBuffer<u32>,
}

impl Vectors {
    fn new(device: &Device, hints: Hints) -> Result<Self, Failure> {
        let (queries, targets) = (SHAPE.queries * SHAPE.dim, SHAPE.targets * SHAPE.dim);
        let vectors = Self {
            queries: UnifiedBuffer::zeroed(device, queries)?,
            targets: UnifiedBuffer::zeroed(device, targets)?,
            scores: UnifiedBuffer::zeroed(device, SHAPE.k)?,
            indices: UnifiedBuffer::zeroed(device, SHAPE.k)?,
        };
        if hints == Hints::ThreeRoles {
            let here = Location::Device(device.ordinal());
            vectors.queries.advise(Advice::SetReadMostly)?.require()?;
            vectors
                .targets
                .advise(Advice::SetPreferredLocation(here))?
                .require()?;
            for location in [here, Location::Host] {
                vectors
                    .scores
                    .advise(Advice::SetAccessedBy(location))?
                    .require()?;
                vectors
                    .indices
                    .advise(Advice::SetAccessedBy(location))?
                    .require()?;
            }
        }
        Ok(vectors)
    }

    fn round(
        &mut self,
        round: usize,
        hints: Hints,
        search: &CosineTopK,
        stream: &Stream,
    ) -> Result<Duration, Failure> {
        let (queries, targets) = (
            values(self.queries.len(), round + 1),
            values(self.targets.len(), round),
        );
        self.queries.host_mut()?.copy_from_slice(&queries);
        self.targets.host_mut()?.copy_from_slice(&targets);
        if hints != Hints::None {
            let here = Location::Device(stream.device().ordinal());
            self.queries.prefetch_on(here, stream)?.require()?;
            self.targets.prefetch_on(here, stream)?.require()?;
        }
        let before = Event::timed(stream)?;
        search.launch(
            stream,
            SHAPE,
            &self.queries,
            &self.targets,
            &mut self.scores,
            &mut self.indices,
        )?;
        let time = Event::timed(stream)?.elapsed_since(&before)?;
        let (mut scores, mut indices) = ([0.0; SHAPE.k], [0; SHAPE.k]);
        cosine_top_k_cpu(
            &queries,
            &targets,
            SHAPE.dim,
            SHAPE.k,
            &mut scores,
            &mut indices,
        );
        let (found, found_indices) = (self.scores.host()?, self.indices.host()?);
        match found
            .iter()
            .zip(&scores)
            .position(|(found, expected)| (found - expected).abs() > 1e-5)
        {
            None => Ok(time),
            Some(rank) => Err(format!(
                "rank {rank}: {} instead of {}",
                found_indices[rank], indices[rank]
            )
            .into()),
        }
    }
}
