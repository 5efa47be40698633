//! The first use of a fresh process, which the measurements in turn never see: `um_bench --first-use` starts itself once for each figure.

use crate::measure::size_text;
use crate::raw::{Kind, Raw};
use crate::stats::Stats;
use crate::{Bench, Settings};
use anyhow::{Context, Result, bail, ensure};
use cuda_um::buffer::{FileRead, Runs};
use cuda_um::resource::PinnedMemory;
use cuda_um::{DeviceBuffer, PinnedBuffer, UnifiedBuffer};
use cuda_um_testkit::say;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow::Continue;
use std::path::Path;
use std::process::Command;
use um_kernels::Scale;

const MIB: usize = 1 << 20;
/// The processes of each figure, of which the median counts.
const PROCESSES: usize = 5;
/// The uses of one process: the first, and later ones.
const USES: usize = 4;

/// What is measured, with the sizes in MiB. Each is a first use by raw CUDA and by each of these of cuda-um.
const FIGURES: [(&str, &[usize], &[&str]); 6] = [
    ("copy in", &[1, 4, 16, 64, 256], &["device", "unified"]),
    ("copy out", &[1, 4, 16, 64, 256], &["device", "unified"]),
    ("load", &[16, 64, 1024], &["device"]),
    ("launch", &[1], &["device"]),
    (
        "allocate and free",
        &[16, 256],
        &["device", "unified", "pinned"],
    ),
    ("guard", &[1, 16], &["unified"]),
];

/// Prints the first and later uses of cuda-um, beside the first of raw CUDA.
pub fn run(simulated: bool, settings: Settings) -> Result<()> {
    say!("| first use of a process | raw CUDA | cuda-um | of raw CUDA | of its later uses |");
    say!("|---|---|---|---|---|");
    for (what, sizes, kinds) in FIGURES {
        let sizes: Vec<_> = sizes.iter().map(|mib| mib * MIB).collect();
        for (bytes, kind) in settings
            .sizes(&sizes)
            .iter()
            .flat_map(|bytes| kinds.iter().map(move |kind| (bytes, kind)))
        {
            let time = |way| median(&format!("{what}:{bytes}:{kind}:{way}"), simulated, settings);
            let ([raw, _], [ours, later]) = (time("raw")?, time("ours")?);
            let (size, of_raw, of_later) = (size_text(*bytes), ours / raw, ours / later);
            let [raw, ours] = [raw, ours].map(|time| time * 1e3);
            say!(
                "| {what}, {size}, {kind} | {raw:.3} ms | {ours:.3} ms | {of_raw:.2} | {of_later:.2} |"
            );
        }
    }
    Ok(())
}

/// The medians of the first use and of the later ones, over several processes.
fn median(argument: &str, simulated: bool, settings: Settings) -> Result<[f64; 2]> {
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds.unwrap_or(PROCESSES) {
        let mut process = Command::new(std::env::current_exe()?);
        process.args(["--first-use-of", argument]);
        if simulated {
            process.arg("--sim");
        }
        let output = process.output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{argument}: {told}");
        let times: Vec<f64> = serde_json::from_slice(&output.stdout)?;
        first.push(times[0]);
        later.extend(&times[1..]);
    }
    let medians = [first, later].map(|times| Stats::of(&times).map(|stats| stats.median));
    let [Some(first), Some(later)] = medians else {
        bail!("{argument}: no process");
    };
    Ok([first, later])
}

/// The part of one process: prints the seconds of each use. The context exists, and nothing was copied.
pub fn one(argument: &str, simulated: bool) -> Result<()> {
    let parts: Vec<_> = argument.split(':').collect();
    let [what, bytes, kind, way] = parts[..] else {
        bail!("{argument:?} names no figure");
    };
    let bench = Bench::open(simulated, Settings::default())?;
    let len = bytes.parse::<usize>()? / 4;
    let path = std::env::temp_dir().join(format!("um-bench-{}", std::process::id()));
    if what == "load" {
        std::fs::write(&path, vec![7u8; len * 4]).context("the file to load")?;
    }
    let mut uses = match way {
        "raw" => raw(&bench, what, kind, len, &path)?,
        _ => ours(&bench, what, kind, len, &path)?,
    };
    let mut times = Vec::new();
    for _ in 0..USES {
        times.push(bench.clock.time(&mut uses)?.as_secs_f64());
    }
    // Without a load there is none.
    let _ = std::fs::remove_file(&path);
    say!("{}", serde_json::to_string(&times)?);
    Ok(())
}

type Uses<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

fn raw<'a>(
    bench: &'a Bench,
    what: &str,
    kind: &str,
    len: usize,
    file: &'a Path,
) -> Result<Uses<'a>> {
    let raw: &Raw = &bench.raw;
    let kind = match kind {
        "device" => Kind::Device,
        "unified" => Kind::Managed,
        _ => Kind::Pinned,
    };
    if what == "allocate and free" {
        return Ok(Box::new(move || bench.raw.allocate(kind, len)?.free()));
    }
    let mut memory = bench.raw.allocate(kind, len)?;
    let mut host = vec![1.5f32; len];
    Ok(match what {
        "copy in" => Box::new(move || {
            raw.copy_from_slice(&mut memory, &host)?;
            raw.wait_for_all()
        }),
        "copy out" => Box::new(move || raw.copy_to_slice(&memory, &mut host)),
        "load" => Box::new(move || {
            File::open(file)?.read_exact(bytemuck::cast_slice_mut(&mut host))?;
            raw.copy_from_slice(&mut memory, &host)?;
            raw.wait_for_all()
        }),
        "launch" => {
            let input = bench.raw.allocate(kind, len)?;
            Box::new(move || {
                raw.scale(&input, &mut memory, 2.0)?;
                raw.synchronize()
            })
        }
        _ => Box::new(move || {
            raw.wait_for_all()?;
            std::hint::black_box(memory.host_mut()[0]);
            Ok(())
        }),
    })
}

/// What all types of buffers have.
macro_rules! uses {
    ($buffer:ident, $bench:expr, $what:expr, $len:expr, $file:expr) => {{
        let (bench, len): (&Bench, usize) = ($bench, $len);
        let (device, stream) = (&bench.device, &bench.stream);
        if $what == "allocate and free" {
            return Ok(Box::new(move || {
                Ok($buffer::<f32>::uninit(device, len)?.close()?)
            }));
        }
        let mut memory = $buffer::<f32>::zeroed(device, len)?;
        device.synchronize()?;
        let mut host = vec![1.5f32; len];
        match $what {
            "copy in" => Box::new(move || {
                memory.copy_from_host(&host)?;
                Ok(device.synchronize()?)
            }),
            "copy out" => Box::new(move || Ok(memory.copy_to_host(&mut host)?)),
            "load" => Box::new(move || {
                let (file, bytes) = (File::open($file)?, len * 4);
                let (offset, at, count, stride) = (0, 0, 1, 0);
                let runs = [Runs {
                    offset,
                    at,
                    bytes,
                    count,
                    stride,
                }];
                let read = FileRead::new(memory.as_view_mut().cast()?, &file, &runs)?;
                FileRead::run(&mut [read], usize::MAX, |_| Continue(()))?;
                Ok(device.synchronize()?)
            }),
            _ => {
                let (input, scale) = ($buffer::<f32>::zeroed(device, len)?, Scale::load(device)?);
                Box::new(move || {
                    scale.launch(stream, &input, &mut memory, 2.0)?;
                    Ok(stream.synchronize()?)
                })
            }
        }
    }};
}

fn ours<'a>(
    bench: &'a Bench,
    what: &'a str,
    kind: &str,
    len: usize,
    file: &'a Path,
) -> Result<Uses<'a>> {
    let device = &bench.device;
    Ok(match (what, kind) {
        (_, "pinned") => Box::new(move || {
            let memory = PinnedMemory::new(device);
            Ok(PinnedBuffer::<f32>::uninit_in(&memory, len)?.close()?)
        }),
        ("guard", _) => {
            let memory = UnifiedBuffer::<f32>::zeroed(device, len)?;
            device.synchronize()?;
            Box::new(move || {
                std::hint::black_box(memory.host()?[0]);
                Ok(())
            })
        }
        (_, "unified") => uses!(UnifiedBuffer, bench, what, len, file),
        _ => uses!(DeviceBuffer, bench, what, len, file),
    })
}
