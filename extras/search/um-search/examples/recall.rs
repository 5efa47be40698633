//! Times of exact searches: for each query the 10 targets of the highest cosine among many of 768 elements, random unit vectors.
//!
//! `recall [--quick]`; `CUDA_UM_RUNTIME=sim` checks the lists on the simulator, where the times mean nothing. The queries are fresh in each round;
//! they and the results are in prefetched unified memory. The time is that of the launches and of the wait for them. Lists of a filter must be
//! those without one, bit for bit, and the first queries must have the scores of the CPU reference. `recall_torch.py` beside this file takes the times
//! of PyTorch for the same shapes.

use cuda_um::{Device, DeviceBuffer, PinnedBuffer, Runtime, Stream, UnifiedBuffer, View, ViewMut};
use half::f16;
use std::cell::RefCell;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use um_search::{
    ExactTopK, Filter, Format, Metric, SearchBuffers, TargetScalar, TopKShape, cosine_top_k_cpu,
};

type Failure = Box<dyn Error>;

const DIM: usize = 768;
const K: usize = 10;
/// Targets, and numbers of queries.
const SIZES: [(usize, &[usize]); 3] = [
    (10_000, &[1000]),
    (100_000, &[1000]),
    (1_000_000, &[1000, 1, 10]),
];
const ROUNDS: u64 = 11;
/// From these targets on, searches with exact rows in pinned memory are measured.
const LEAST_PINNED: usize = 100_000;
/// Queries of a round that the CPU reference checks, and the allowed rounding error of a cosine in single precision.
const VERIFIED: usize = 4;
const TOLERANCE: f32 = 1e-4;

fn main() -> ExitCode {
    let Err(error) = run(&mut io::stdout()) else {
        return ExitCode::SUCCESS;
    };
    // The reader closed the pipe (`| head`).
    let error_of_io = error.downcast_ref::<io::Error>();
    if error_of_io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // Standard error may be closed, too.
    let _ = writeln!(io::stderr(), "recall: {error}");
    ExitCode::FAILURE
}

fn run(out: &mut dyn Write) -> Result<(), Failure> {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let is_simulated = std::env::var("CUDA_UM_RUNTIME").as_deref() == Ok("sim");
    let runtime = match is_simulated {
        true => Runtime::from_table(cuda_um_sim::Sim::from_env()?.table())?,
        false => Runtime::open()?,
    };
    let device = runtime.device(0)?;
    // Before the measurements, which would be lost if it could not be written.
    writeln!(
        out,
        "| queries × targets × {DIM} | search | median, ms | least, ms |\n|---|---|---|---|"
    )?;
    let (sizes, rounds) = match (is_simulated, is_quick) {
        (true, _) => (&[(1000, &[20][..])][..], 2),
        (_, true) => (&SIZES[..2], ROUNDS),
        (_, false) => (&SIZES[..], ROUNDS),
    };
    for &(targets, queries) in sizes {
        let rows = unit_vectors(u64::MAX, targets);
        for &queries in queries {
            let shape = TopKShape {
                queries,
                targets,
                dim: DIM,
                k: K,
            };
            measure(out, &device, shape, &rows, rounds)?;
        }
    }
    Ok(())
}

type Launch<'a> =
    dyn Fn(View<'_, f32>, ViewMut<'_, f32>, ViewMut<'_, u32>) -> Result<(), Failure> + 'a;

/// A way to search, and the times of its rounds.
struct Way<'a> {
    name: String,
    /// Its lists are those of the first way with this text.
    like: &'static str,
    launch: Box<Launch<'a>>,
    times: Vec<Duration>,
}

/// Measures all ways in turn, and prints a line for each.
fn measure(
    out: &mut dyn Write,
    device: &Device,
    shape: TopKShape,
    rows: &[f32],
    rounds: u64,
) -> Result<(), Failure> {
    let stream = &device.create_stream()?;
    let search = &ExactTopK::load(device)?;
    let in_half: Vec<f16> = rows.iter().map(|element| f16::from_f32(*element)).collect();
    let single = &DeviceBuffer::from_slice(device, rows)?;
    let half = &DeviceBuffer::from_slice(device, &in_half)?;
    let prepare = |format| search.prepare(stream, single.as_view(), DIM, Metric::Cosine, format);
    let (prepared_f16, prepared_int8, pinned, pieces);
    let mut ways = vec![
        one_call(search, stream, shape, single.as_view(), Filter::Off, "f32"),
        one_call(search, stream, shape, half.as_view(), Filter::Off, "f16"),
    ];
    match search.kernels() {
        Err(why) => writeln!(out, "| | no filter: {why} | | |")?,
        Ok(_) => {
            ways.push(one_call(
                search,
                stream,
                shape,
                single.as_view(),
                Filter::Auto,
                "f32",
            ));
            ways.push(one_call(
                search,
                stream,
                shape,
                half.as_view(),
                Filter::Auto,
                "f16",
            ));
            (prepared_f16, prepared_int8) = (prepare(Format::F16)?, prepare(Format::Int8)?);
            for (name, prepared) in [
                ("prepared f16", &prepared_f16),
                ("prepared int8", &prepared_int8),
            ] {
                ways.push(way(
                    name.to_owned(),
                    "f32",
                    move |queries, scores, indices| {
                        let buffers = SearchBuffers {
                            queries,
                            targets: single.as_view(),
                            scores,
                            indices,
                        };
                        search.launch_prepared(stream, shape, prepared, buffers)?;
                        Ok(())
                    },
                ));
            }
            if shape.targets >= LEAST_PINNED {
                pinned = PinnedBuffer::from_slice(device, rows)?;
                // With so little device memory the copy for the filter is in pieces.
                let limit = size_of_val(rows) / 3;
                pieces = RefCell::new(search.prepare_within(
                    stream,
                    pinned.as_view(),
                    DIM,
                    Metric::Cosine,
                    Format::F16,
                    limit,
                    drop,
                )?);
                let (prepared, pinned, pieces) = (&prepared_f16, &pinned, &pieces);
                ways.push(way(
                    "prepared f16, rows in pinned memory".to_owned(),
                    "f32",
                    move |queries, scores, indices| {
                        let buffers = SearchBuffers {
                            queries,
                            targets: pinned.as_view(),
                            scores,
                            indices,
                        };
                        search.launch_prepared(stream, shape, prepared, buffers)?;
                        Ok(())
                    },
                ));
                ways.push(way(
                    "f16 in pieces, rows in pinned memory".to_owned(),
                    "f32",
                    move |queries, scores, indices| {
                        let buffers = SearchBuffers {
                            queries,
                            targets: pinned.as_view(),
                            scores,
                            indices,
                        };
                        search.launch_within(
                            stream,
                            shape,
                            &mut pieces.borrow_mut(),
                            buffers,
                            drop,
                        )?;
                        Ok(())
                    },
                ));
            }
        }
    }
    let mut asked = UnifiedBuffer::<f32>::zeroed(device, shape.queries * DIM)?;
    let mut scores = UnifiedBuffer::<f32>::zeroed(device, shape.queries * K)?;
    let mut indices = UnifiedBuffer::<u32>::zeroed(device, shape.queries * K)?;
    for round in 0..rounds {
        let queries = unit_vectors(round, shape.queries);
        let mut lists: Vec<(&str, Lists)> = Vec::new();
        for way in &mut ways {
            asked.copy_from_host(&queries)?;
            asked.prefetch_on(device, stream)?.require()?;
            scores.prefetch_on(device, stream)?.require()?;
            indices.prefetch_on(device, stream)?.require()?;
            stream.synchronize()?;
            let start = Instant::now();
            (way.launch)(asked.as_view(), scores.as_view_mut(), indices.as_view_mut())?;
            stream.synchronize()?;
            way.times.push(start.elapsed());
            let found = (
                scores.host()?.iter().map(|score| score.to_bits()).collect(),
                indices.host()?.to_vec(),
            );
            match lists.iter().find(|(like, _)| *like == way.like) {
                Some((_, first)) if *first != found => {
                    return Err(format!("{}: other lists than without a filter", way.name).into());
                }
                Some(_) => {}
                None => lists.push((way.like, found)),
            }
        }
        check(&queries, rows, &lists[0].1)?;
    }
    for way in &mut ways {
        way.times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (median, least) = (ms(way.times[way.times.len() / 2]), ms(way.times[0]));
        writeln!(
            out,
            "| {} × {} | {} | {median:.3} | {least:.3} |",
            shape.queries, shape.targets, way.name
        )?;
    }
    Ok(())
}

/// Scores as bits, and indices.
type Lists = (Vec<u32>, Vec<u32>);

fn way<'a>(
    name: String,
    like: &'static str,
    launch: impl Fn(View<'_, f32>, ViewMut<'_, f32>, ViewMut<'_, u32>) -> Result<(), Failure> + 'a,
) -> Way<'a> {
    Way {
        name,
        like,
        launch: Box::new(launch),
        times: Vec::new(),
    }
}

fn one_call<'a, T: TargetScalar>(
    search: &'a ExactTopK,
    stream: &'a Stream,
    shape: TopKShape,
    targets: View<'a, T>,
    filter: Filter,
    like: &'static str,
) -> Way<'a> {
    way(
        format!("one call, {filter:?}, {like} targets"),
        like,
        move |queries, scores, indices| {
            let buffers = SearchBuffers {
                queries,
                targets,
                scores,
                indices,
            };
            search.launch(stream, shape, Metric::Cosine, filter, buffers)?;
            Ok(())
        },
    )
}

/// Compares the scores of the first queries with the CPU reference: rounding may only exchange targets of almost equal cosines.
fn check(queries: &[f32], rows: &[f32], found: &Lists) -> Result<(), Failure> {
    let count = VERIFIED.min(queries.len() / DIM);
    let (mut scores, mut indices) = (vec![0.0; count * K], vec![0; count * K]);
    cosine_top_k_cpu(
        &queries[..count * DIM],
        rows,
        DIM,
        K,
        &mut scores,
        &mut indices,
    );
    for (place, score) in scores.iter().enumerate() {
        let query = &queries[place / K * DIM..][..DIM];
        let row = &rows[found.1[place] as usize * DIM..][..DIM];
        let cosine: f32 = query.iter().zip(row).map(|(q, t)| q * t).sum();
        let given = f32::from_bits(found.0[place]);
        if (given - score).abs() > TOLERANCE || (cosine - score).abs() > TOLERANCE {
            return Err(format!(
                "place {place}: {given}, the cosine is {cosine}, the CPU reference has {score}"
            )
            .into());
        }
    }
    Ok(())
}

/// Unit vectors, the same for the same seed (xorshift64*).
fn unit_vectors(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let mut vectors: Vec<f32> = (0..count * DIM).map(|_| next()).collect();
    for vector in vectors.chunks_mut(DIM) {
        let norm = vector
            .iter()
            .map(|element| element * element)
            .sum::<f32>()
            .sqrt();
        vector.iter_mut().for_each(|element| *element /= norm);
    }
    vectors
}
