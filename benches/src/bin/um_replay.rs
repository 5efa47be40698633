//! `um_replay`: predicts the cost of a recorded program on another machine, or with changes.

use clap::{Parser, ValueEnum};
use cuda_um::cost::CostModel;
use cuda_um::{Advice, Location};
use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_trace::{MigrationReport, Trace, html};
use std::fs::File;
use std::io::{ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use um_benches::replay::{Change, Replay, Replayed};

const EXAMPLES: &str = "\
Examples:
  um_replay trace.json                                  the same again, on a simulated H200
  um_replay trace.json --gpu pascal                     on another GPU
  um_replay trace.json --change prefetch                everything prefetched before it is used
  um_replay trace.json --change targets=read-mostly --change scores=mapped --html otherwise.html

Changes: prefetch, no-prefetch, no-advice, mapped, read-mostly, prefer-host, prefer-device, accessed-by-device,
accessed-by-host; for all buffers, or, as NAME=CHANGE, for those of a name.

Exit status: 0 done; 1 a file cannot be read or the replay fails (one line says why); 2 wrong usage.";
/// Limit on the bytes that are read from a file: pipes and devices may be endless.
const LONGEST_BYTES: u64 = 1 << 30;

/// Replays a recorded trace on a simulated machine, and predicts its cost there
#[derive(Parser)]
#[command(name = "um_replay", version, after_help = EXAMPLES)]
struct Args {
    /// The trace, as JSON of a profiler (batch_recall --trace)
    trace: PathBuf,
    /// The simulated GPU
    #[arg(long, value_enum, default_value_t = Generation::H200)]
    gpu: Generation,
    /// The simulated CUDA version
    #[arg(long, value_enum, default_value_t = Version::V13_0)]
    cuda: Version,
    /// A change of the recorded program; may be given several times
    #[arg(long, value_name = "[NAME=]CHANGE", value_parser = change)]
    change: Vec<(Option<String>, Change)>,
    /// Host memory that the replay may use at once, in GiB: all buffers, and the memory of a copy from or to the program's own
    /// memory
    #[arg(long, value_name = "GIB", default_value_t = 16)]
    max_gib: u32,
    /// Bytes that the host may touch, copy, fill or migrate back in total, in GiB: a limit on the time
    #[arg(long, value_name = "GIB", default_value_t = 256)]
    max_host_gib: u32,
    /// Write a trace of the replay to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page of the replay to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Generation {
    H200,
    Gh200,
    Pascal,
    Maxwell,
    NoConcurrent,
}

#[derive(Clone, Copy, ValueEnum)]
enum Version {
    #[value(name = "11.8")]
    V11_8,
    #[value(name = "12.2")]
    V12_2,
    #[value(name = "12.9")]
    V12_9,
    #[value(name = "13.0")]
    V13_0,
    #[value(name = "13.4")]
    V13_4,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("um_replay: {}", printable(&error).replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let name = args.trace.display();
    let text = File::open(&args.trace)
        .and_then(|file| bounded(file, LONGEST_BYTES))
        .map_err(|error| format!("{name}: {error}"))?;
    let trace = Trace::from_json(&text).map_err(|error| format!("{name}: {error}"))?;
    let (gpu, model) = args.gpu.simulated();
    let mut replay = Replay::of(&trace)
        .gpu(gpu)
        .cuda(args.cuda.simulated())
        .max_bytes(u64::from(args.max_gib) << 30)
        .max_host_bytes(u64::from(args.max_host_gib) << 30);
    for (buffer, change) in &args.change {
        replay = replay.change(buffer.as_deref(), change.clone());
    }
    let replayed = replay.run().map_err(|error| error.to_string())?;
    let report = MigrationReport::of(&replayed.trace, &model);
    print(&printable(&describe(&trace, &replayed, &report)))?;
    if let Some(file) = &args.json {
        write(file, &replayed.trace.to_json())?;
    }
    if let Some(file) = &args.html {
        write(file, &html(&replayed.trace, &report))?;
    }
    Ok(())
}

fn describe(trace: &Trace, replayed: &Replayed, report: &MigrationReport) -> String {
    let source = &trace.source;
    let mut text = format!(
        "recorded by {} (CUDA {}): {}\npredicted: {}\n",
        source.name, source.cuda, replayed.recorded, replayed.predicted
    );
    let ratio = replayed.predicted.total().as_secs_f64() / replayed.recorded.total().as_secs_f64();
    if ratio.is_finite() {
        text += &format!("predicted / recorded: {ratio:.2}\n");
    }
    for (what, count) in &replayed.left_out {
        text += &format!("left out: {what} ({count})\n");
    }
    text + &format!("\n{report}\n")
}

/// Reads the whole text if it is not longer than the limit.
fn bounded(from: impl Read, most: u64) -> std::io::Result<String> {
    let mut text = String::new();
    from.take(most + 1).read_to_string(&mut text)?;
    match text.len() as u64 > most {
        true => Err(std::io::Error::other(format!(
            "it has more than {most} bytes"
        ))),
        false => Ok(text),
    }
}

/// Removes characters that a terminal must not get: names in files and errors may contain any character.
fn printable(text: &str) -> String {
    let shown = |letter: char| match letter.is_control() && letter != '\n' {
        true => '\u{fffd}',
        false => letter,
    };
    text.chars().map(shown).collect()
}

fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // The reader closed the pipe (`| head`).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| error.to_string()),
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn change(text: &str) -> Result<(Option<String>, Change), String> {
    // Names may contain a `=`, but changes do not.
    let (name, word) = match text.rsplit_once('=') {
        Some((name, word)) => (Some(name.to_owned()), word),
        None => (None, text),
    };
    let device = Location::Device(0);
    let change = match word {
        "prefetch" => Change::PrefetchBeforeUse,
        "no-prefetch" => Change::NoPrefetch,
        "no-advice" => Change::NoAdvice,
        "mapped" => Change::Mapped,
        "read-mostly" => Change::Advise(Advice::SetReadMostly),
        "prefer-host" => Change::Advise(Advice::SetPreferredLocation(Location::Host)),
        "prefer-device" => Change::Advise(Advice::SetPreferredLocation(device)),
        "accessed-by-device" => Change::Advise(Advice::SetAccessedBy(device)),
        "accessed-by-host" => Change::Advise(Advice::SetAccessedBy(Location::Host)),
        _ => return Err(format!("`{word}` is not a change (see --help)")),
    };
    Ok((name, change))
}

impl Generation {
    fn simulated(self) -> (Gpu, CostModel) {
        match self {
            Self::H200 => (Gpu::H200, CostModel::h200()),
            Self::Gh200 => (Gpu::Gh200, CostModel::gh200()),
            Self::Pascal => (Gpu::Pascal, CostModel::pascal()),
            Self::Maxwell => (Gpu::Maxwell, CostModel::maxwell()),
            Self::NoConcurrent => (Gpu::NoConcurrentAccess, CostModel::integrated()),
        }
    }
}

impl Version {
    fn simulated(self) -> CudaVersion {
        match self {
            Self::V11_8 => CudaVersion::V11_8,
            Self::V12_2 => CudaVersion::V12_2,
            Self::V12_9 => CudaVersion::V12_9,
            Self::V13_0 => CudaVersion::V13_0,
            Self::V13_4 => CudaVersion::V13_4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{bounded, printable};

    #[test]
    fn files_without_an_end_are_not_read_for_ever() {
        assert_eq!(bounded(&b"1234"[..], 4).unwrap(), "1234");
        let error = bounded(std::io::repeat(b' '), 4).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 4 bytes");
    }

    #[test]
    fn control_characters_are_not_shown() {
        assert_eq!(printable("a\u{1b}[2J\nb\t"), "a\u{fffd}[2J\nb\u{fffd}");
    }
}
