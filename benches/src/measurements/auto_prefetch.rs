//! Loops that the host and a kernel share, with prefetches and advice by hand, with automatic prefetch, and without any.

use super::measurement::{FACTOR, Measurement};
use super::recall::{DIM, K, SINGLE, Task};
use crate::Bench;
use crate::data;
use crate::measure::{Case, Round};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{Advice, Location, UnifiedBuffer};
use std::cell::RefCell;
use std::time::Duration;
use um_backend::auto::AutoPrefetch;
use um_kernels::Scale;
use um_search::{ExactTopK, Filter, Metric, SearchBuffers, TopKShape};

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "auto_prefetch",
    what: "Loops on managed memory that the host writes through the pointer. 3 MiB: the host writes them, a kernel reads them and writes \
           other 3 MiB, and the host waits. Batch recall: the host writes 1000 vectors of 768 numbers and as many queries into new \
           buffers, a kernel finds the 10 nearest, and the host reads them; a quick run on the simulator has 100. Times are the means of \
           ten turns, after two turns that are not timed. By hand: prefetched to the device before the launch and to the host after \
           it; or vectors advised to stay on the host, and read over the link.",
    run,
    notes,
};

const PREFETCHED: &str = "prefetched by hand";
const ADVISED: &str = "advised by hand";
const AUTOMATIC: &str = "automatic prefetch";
const WITHOUT: &str = "without prefetches";
const NAMES: [&str; 4] = [PREFETCHED, ADVISED, AUTOMATIC, WITHOUT];
/// 3 MiB.
const LEN: usize = 3 << 18;
/// From the third turn on, automatic prefetch has a plan.
const RECORDED: usize = 2;
const TIMED: u32 = 10;

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let scale = Scale::load(&bench.device)?;
    let mut case = Case::new("3 MiB", LEN * 4, LEN);
    for name in NAMES {
        let scale = &scale;
        case.ours(name, move |round| scaled(bench, scale, round, name));
    }
    cases.push(case.run(&bench.clock, &bench.settings));
    let count = match bench.clock.is_simulated() && bench.settings.quick {
        true => 100,
        false => 1000,
    };
    let search = ExactTopK::load(&bench.device)?;
    let mut targets = vec![0.0; count * DIM];
    data::fill_unit_vectors(&mut targets, DIM, u64::MAX);
    let task = RefCell::new(Task::new(count, &targets, None));
    let mut case = Case::new("batch recall", size_of_val(&*targets), 1);
    for name in NAMES {
        let (search, targets, task) = (&search, &*targets, &task);
        case.ours(name, move |round| {
            let mut task = task.borrow_mut();
            task.at(round)?;
            let mut results = (Vec::new(), Vec::new());
            let vectors = (targets, &*task.queries);
            let time = mean(bench, name, || {
                recalled(bench, search, vectors, name, &mut results)
            })?;
            task.verify(round, &results.0, &results.1, SINGLE)?;
            Ok(time)
        });
    }
    cases.push(case.run(&bench.clock, &bench.settings));
    Ok(())
}

/// The mean time of the turns that count.
fn mean(bench: &Bench, name: &str, mut turn: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let _scope = match name {
        AUTOMATIC => Some(AutoPrefetch::start(&bench.device)?),
        _ => None,
    };
    for _ in 0..RECORDED {
        turn()?;
    }
    let mut sum = Duration::ZERO;
    for _ in 0..TIMED {
        sum += turn()?;
    }
    Ok(sum / TIMED)
}

/// Advice for what the host writes and the device reads, if it is given by hand.
fn advise(bench: &Bench, name: &str, buffer: &UnifiedBuffer<f32>) -> cuda_um::Result<()> {
    if name == ADVISED {
        buffer
            .advise(Advice::SetPreferredLocation(Location::Host))?
            .require()?;
        buffer
            .advise(Advice::SetAccessedBy(Location::from(&bench.device)))?
            .require()?;
    }
    Ok(())
}

fn scaled(bench: &Bench, scale: &Scale, round: &mut Round<'_>, name: &str) -> Result<Duration> {
    let (device, stream) = (&bench.device, &bench.stream);
    let mut input = UnifiedBuffer::<f32>::zeroed(device, LEN)?;
    let mut output = UnifiedBuffer::<f32>::zeroed(device, LEN)?;
    advise(bench, name, &input)?;
    let (clock, source) = (round.clock, round.source);
    let time = mean(bench, name, || {
        clock.time(|| {
            input.host_mut()?.copy_from_slice(source);
            if name == PREFETCHED {
                input.prefetch_on(device, stream)?.require()?;
            }
            scale.launch(stream, &input, &mut output, FACTOR)?;
            if name == PREFETCHED {
                input.prefetch_on(Location::Host, stream)?.require()?;
            }
            Ok(stream.synchronize()?)
        })
    })?;
    output.copy_to_host(round.back)?;
    round.verified(time, FACTOR)
}

fn recalled(
    bench: &Bench,
    search: &ExactTopK,
    (targets, queries): (&[f32], &[f32]),
    name: &str,
    results: &mut (Vec<f32>, Vec<u32>),
) -> Result<Duration> {
    let (device, stream) = (&bench.device, &bench.stream);
    let count = targets.len() / DIM;
    let shape = TopKShape {
        queries: count,
        targets: count,
        dim: DIM,
        k: K,
    };
    bench.clock.time(|| {
        let new = |vectors: &[f32]| -> Result<_> {
            let mut buffer = UnifiedBuffer::<f32>::zeroed(device, vectors.len())?;
            advise(bench, name, &buffer)?;
            buffer.host_mut()?.copy_from_slice(vectors);
            if name == PREFETCHED {
                buffer.prefetch_on(device, stream)?.require()?;
            }
            Ok(buffer)
        };
        let (targets, queries) = (new(targets)?, new(queries)?);
        let mut scores = UnifiedBuffer::<f32>::zeroed(device, count * K)?;
        let mut indices = UnifiedBuffer::<u32>::zeroed(device, count * K)?;
        let buffers = SearchBuffers {
            queries: queries.view(..)?,
            targets: targets.view(..)?,
            scores: scores.view_mut(..)?,
            indices: indices.view_mut(..)?,
        };
        search.launch(stream, shape, Metric::Cosine, Filter::Auto, buffers)?;
        if name == PREFETCHED {
            scores.prefetch_on(Location::Host, stream)?.require()?;
            indices.prefetch_on(Location::Host, stream)?.require()?;
        }
        *results = (scores.host()?.to_vec(), indices.host()?.to_vec());
        Ok(())
    })
}

/// The ratio that the goals state.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    let ratio = |case: &CaseReport, name| {
        let best = case.median(PREFETCHED)?.min(case.median(ADVISED)?);
        let (label, ratio) = (&case.label, case.median(name)? / best);
        Some(format!(
            "{label}: {name} takes {ratio:.3} times as long as the better one by hand"
        ))
    };
    let of = |case| {
        [AUTOMATIC, WITHOUT]
            .into_iter()
            .filter_map(move |name| ratio(case, name))
    };
    cases.iter().flat_map(of).collect()
}
