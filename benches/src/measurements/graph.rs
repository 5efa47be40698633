//! Many small kernels as one graph.

use super::measurement::{FACTOR, KIB, MANY_ROUNDS, Measurement, no_notes};
use crate::Bench;
use crate::measure::{Budget, Case, Round};
use crate::peer::{CUDARC, TORCH};
use crate::raw::{Kind, Memory, Raw};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::kernel::Arguments;
use cuda_um::{DeviceBuffer, Stream, UnifiedBuffer, constant, graph::GraphExec};
use serde_json::json;
use std::rc::Rc;
use std::time::Duration;
use um_kernels::Scale;

pub(super) const HOST: Measurement = Measurement {
    name: "graph_host",
    what: "Host time of one launch of a graph of small kernels (1024 elements each, over two buffers), and of the same kernels one by one. \
           The stream is idle before each, and waited for after it, which is not timed. A quick run on the simulator leaves out 1000 kernels.",
    seconds: 35,
    run: |bench, budget, cases| run(bench, budget, cases, false),
    notes: no_notes,
};

pub(super) const DONE: Measurement = Measurement {
    name: "graph_done",
    what: "The same, until the work is done.",
    seconds: 35,
    run: |bench, budget, cases| run(bench, budget, cases, true),
    notes: no_notes,
};

pub(super) const TOUCHED: Measurement = Measurement {
    name: "graph_touched",
    what: "A graph of 20 kernels, each over its own buffer of 64 KiB of managed memory, after the host has written one of the buffers: until the \
           work is done. The writes are not timed. Raw CUDA launches the graph, which then runs by page faults; or it prefetches the buffer that \
           was written before.",
    seconds: 8,
    run: touched,
    notes: no_notes,
};

const KERNELS: [usize; 5] = [1, 8, 50, 200, 1000];
const LEN: usize = 1024;
/// Launches in a sample.
const LAUNCHES: u32 = 20;

/// The time of one launch, alone or with its end.
fn timed(
    round: &mut Round<'_>,
    done: bool,
    mut launch: impl FnMut() -> Result<()>,
    wait: impl Fn() -> Result<()>,
) -> Result<Duration> {
    let mut time = Duration::ZERO;
    for _ in 0..LAUNCHES {
        wait()?;
        time += round.clock.time(|| {
            launch()?;
            if done { wait() } else { Ok(()) }
        })?;
    }
    wait()?;
    Ok(time / LAUNCHES)
}

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>, done: bool) -> Result<()> {
    let (device, stream) = (&bench.device, &bench.stream);
    let (scale, raw) = (&Scale::load(device)?, Raw::open(&bench.table, true)?);
    let wait = || Ok(stream.synchronize()?);
    let is_short = bench.clock.is_simulated() && bench.settings.quick;
    let counts = &KERNELS[..KERNELS.len() - usize::from(is_short)];
    budget.split(counts.len());
    for &count in counts {
        let mut case = Case::new(format!("{count} kernels"), LEN * 4, LEN);
        let mut unified = (
            UnifiedBuffer::<f32>::zeroed(device, LEN)?,
            UnifiedBuffer::<f32>::zeroed(device, LEN)?,
        );
        let mut plain = (
            DeviceBuffer::<f32>::zeroed(device, LEN)?,
            DeviceBuffer::<f32>::zeroed(device, LEN)?,
        );
        macro_rules! ours {
            ($name:expr, $buffers:expr) => {
                let (input, output) = &mut $buffers;
                let graph = stream.capture(|_| {
                    (0..count).try_for_each(|_| {
                        let launched =
                            scale.launch(stream, &*input, &mut *output, constant(FACTOR));
                        launched.map_err(cuda_um::Error::from)
                    })
                })?;
                let mut exec = graph.instantiate()?;
                case.ours(concat!("cuda-um, graph, ", $name), move |round| {
                    let (input, output) = &mut $buffers;
                    input.copy_from_host(round.source)?;
                    let mut launch = || Ok(exec.launch(stream, (&*input, &mut *output))?);
                    // Brings in what the host has written, as the prefetches of raw CUDA below.
                    launch()?;
                    let time = timed(round, done, launch, wait)?;
                    output.copy_to_host(round.back)?;
                    round.verified(time, FACTOR)
                });
            };
        }
        ours!("unified buffers", unified);
        ours!("device buffers", plain);
        let mut direct = DeviceBuffer::<f32>::zeroed(device, LEN)?;
        let mut source = DeviceBuffer::<f32>::zeroed(device, LEN)?;
        case.ours("cuda-um, launches, device buffers", move |round| {
            source.copy_from_host(round.source)?;
            let launch = || {
                (0..count)
                    .try_for_each(|_| Ok(scale.launch(stream, &source, &mut direct, FACTOR)?))
            };
            let time = timed(round, done, launch, wait)?;
            direct.copy_to_host(round.back)?;
            round.verified(time, FACTOR)
        });
        for (name, kind, as_graph) in [
            ("cudaGraphLaunch, managed", Kind::Managed, true),
            ("cudaGraphLaunch, cudaMalloc", Kind::Device, true),
            ("cuLaunchKernel, cudaMalloc", Kind::Device, false),
        ] {
            add_raw(&mut case, &raw, (name, kind, as_graph), (count, done))?;
        }
        let request = json!({"do": "graph", "kernels": count, "elements": LEN, "launches": LAUNCHES, "wait": done});
        case.peer(bench, TORCH, "PyTorch CUDAGraph", request.clone());
        case.peer(bench, CUDARC, "cudarc CudaGraph", request);
        case.rounds(MANY_ROUNDS);
        cases.push(case.run(&bench.clock, &bench.settings, budget));
    }
    Ok(())
}

fn add_raw<'a>(
    case: &mut Case<'a>,
    raw: &'a Rc<Raw>,
    (name, kind, as_graph): (&str, Kind, bool),
    (count, done): (usize, bool),
) -> Result<()> {
    let (mut input, mut output) = (raw.allocate(kind, LEN)?, raw.allocate(kind, LEN)?);
    let graph = match as_graph {
        true => Some(
            raw.capture(|| (0..count).try_for_each(|_| raw.scale(&input, &mut output, FACTOR)))?,
        ),
        false => None,
    };
    case.raw(name, move |round| {
        raw.copy_from_slice(&mut input, round.source)?;
        if kind == Kind::Managed {
            raw.prefetch(&input, true)?;
            raw.prefetch(&output, true)?;
        }
        raw.wait_for_all()?;
        let launch = || match &graph {
            Some(graph) => graph.launch(),
            None => (0..count).try_for_each(|_| raw.scale(&input, &mut output, FACTOR)),
        };
        let time = timed(round, done, launch, || raw.synchronize())?;
        raw.copy_to_slice(&output, round.back)?;
        round.verified(time, FACTOR)
    });
    Ok(())
}

/// The buffers of the graph whose memory the host touches.
const BUFFERS: usize = 20;
const TOUCHED_LEN: usize = 64 * KIB / 4;

fn touched(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>) -> Result<()> {
    let (device, stream) = (&bench.device, &bench.stream);
    let (scale, raw) = (Scale::load(device)?, Raw::open(&bench.table, true)?);
    let mut case = Case::new("one of 20 buffers", TOUCHED_LEN * 4, TOUCHED_LEN);
    let new = |_| UnifiedBuffer::<f32>::zeroed(device, TOUCHED_LEN);
    let mut inputs: Vec<_> = (0..BUFFERS).map(new).collect::<Result<_, _>>()?;
    let mut output = DeviceBuffer::<f32>::zeroed(device, TOUCHED_LEN)?;
    let graph = stream.capture(|_| {
        inputs
            .iter()
            .try_for_each(|input| scale.launch(stream, input, &mut output, constant(FACTOR)))
    })?;
    let mut exec = graph.instantiate()?;
    let mut next = 0;
    case.ours("cuda-um, graph", move |round| {
        let mut time = Duration::ZERO;
        for _ in 0..LAUNCHES {
            next = (next + 1) % BUFFERS;
            inputs[next].host_mut()?.copy_from_slice(round.source);
            time += round
                .clock
                .time(|| ours(&mut exec, stream, &inputs, &mut output))?;
        }
        inputs[BUFFERS - 1].copy_from_host(round.source)?;
        ours(&mut exec, stream, &inputs, &mut output)?;
        output.copy_to_host(round.back)?;
        round.verified(time / LAUNCHES, FACTOR)
    });
    for (name, prefetches) in [
        ("cudaGraphLaunch, by faults", false),
        ("cudaMemPrefetchAsync of the buffer, cudaGraphLaunch", true),
    ] {
        let new = |_| raw.allocate(Kind::Managed, TOUCHED_LEN);
        let mut inputs: Vec<Memory> = (0..BUFFERS).map(new).collect::<Result<_>>()?;
        let mut output = raw.allocate(Kind::Device, TOUCHED_LEN)?;
        let graph = raw.capture(|| {
            let mut all = inputs.iter();
            all.try_for_each(|input| raw.scale(input, &mut output, FACTOR))
        })?;
        raw.synchronize()?;
        let (raw, mut next) = (&raw, 0);
        case.raw(name, move |round| {
            let mut time = Duration::ZERO;
            for _ in 0..LAUNCHES {
                next = (next + 1) % BUFFERS;
                inputs[next].host_mut().copy_from_slice(round.source);
                time += round.clock.time(|| {
                    if prefetches {
                        raw.prefetch(&inputs[next], true)?;
                    }
                    graph.launch()?;
                    raw.synchronize()
                })?;
            }
            raw.copy_from_slice(&mut inputs[BUFFERS - 1], round.source)?;
            raw.wait_for_all()?;
            graph.launch()?;
            raw.synchronize()?;
            raw.copy_to_slice(&output, round.back)?;
            round.verified(time / LAUNCHES, FACTOR)
        });
    }
    case.rounds(MANY_ROUNDS);
    cases.push(case.run(&bench.clock, &bench.settings, budget));
    Ok(())
}

fn ours(
    exec: &mut GraphExec,
    stream: &Stream,
    inputs: &[UnifiedBuffer<f32>],
    output: &mut DeviceBuffer<f32>,
) -> Result<()> {
    let mut arguments = Arguments::new();
    arguments.push(&inputs[0]);
    arguments.push(output);
    inputs[1..].iter().for_each(|input| arguments.push(input));
    exec.launch(stream, arguments)?;
    Ok(stream.synchronize()?)
}
