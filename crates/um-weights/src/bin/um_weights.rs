//! `um_weights`: shows, loads and converts files of weights.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use um_weights::um_backend::cuda_um::buffer::TransferOptions;
use um_weights::um_backend::{BufferKind, CudaBackend, CudaBackendConfig};
use um_weights::{LoadOptions, Save, TensorInfo, Weights};

const EXAMPLES: &str = "\
Examples:
  um_weights info model.safetensors.index.json
  um_weights load model.safetensors --to unified --times 3 --json
  um_weights convert model.gguf -o model.safetensors

Exit status: 0 done; 1 a file cannot be read, understood or written, or there is no GPU (one line says which); 2 wrong usage.";

/// Weights of models: what files have, how fast they load
#[derive(Parser)]
#[command(name = "um_weights", version, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The tensors of files
    Info {
        /// safetensors, GGUF, or an index (.json)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// All data, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Loads the files, and tells the time
    Load {
        /// safetensors, GGUF, or an index (.json)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The kind of the buffers
        #[arg(long, value_enum, default_value = "cuda")]
        to: To,
        /// The largest number of threads that read
        #[arg(long, value_name = "NUMBER")]
        threads: Option<usize>,
        /// The largest size of the ring of pinned memory [default: 4 MiB a thread]
        #[arg(long, value_name = "MIB")]
        ring_mib: Option<usize>,
        /// Drops each tensor when it is there, so that little memory is used
        #[arg(long)]
        one_by_one: bool,
        /// Tells the system to drop the files from its cache
        #[arg(long)]
        drop_page_cache: bool,
        /// Loads so many times
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        times: usize,
        /// All data, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Writes a safetensors or GGUF file (.gguf) of the same tensors, if it has their types
    Convert {
        /// safetensors, GGUF, or an index (.json)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The file to write
        #[arg(long, short = 'o', value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum To {
    Unified,
    Cuda,
    Pinned,
    Host,
}

/// The outcome of a part of the program.
type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("um_weights: {}", error.to_string().replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Done {
    match task {
        Task::Info { files, json } => {
            let weights = Weights::open(files)?;
            let text = match json {
                true => serde_json::to_string_pretty(&info(&weights))? + "\n",
                false => table(&weights),
            };
            std::io::stdout().write_all(text.as_bytes())?;
        }
        Task::Load {
            files,
            to,
            threads,
            ring_mib,
            one_by_one,
            drop_page_cache,
            times,
            json,
        } => {
            let kind = match to {
                To::Unified => BufferKind::Unified,
                To::Cuda => BufferKind::Cuda,
                To::Pinned => BufferKind::Pinned,
                To::Host => BufferKind::Host,
            };
            let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
            let mut ring = TransferOptions::default();
            if let Some(threads) = threads {
                ring = ring.threads(threads).ring_bytes(threads * (4 << 20));
            }
            if let Some(mib) = ring_mib {
                ring = ring.ring_bytes(mib << 20);
            }
            backend.device().set_transfer_options(ring);
            let weights = Weights::open(files)?;
            let is_bar = std::io::stderr().is_terminal();
            let mut options = LoadOptions::default().drop_page_cache(drop_page_cache);
            if let Some(threads) = threads {
                options = options.threads(threads);
            }
            let start = Instant::now();
            let options = options.progress(move |done, total| {
                if is_bar {
                    bar(done, total, start.elapsed());
                }
                ControlFlow::Continue(())
            });
            let mut loads = Vec::new();
            for _ in 0..times.max(1) {
                loads.push(timed(&weights, || {
                    load(&weights, &backend, kind, &options, one_by_one)
                })?);
            }
            if is_bar {
                eprintln!();
            }
            let peak = peak_bytes();
            let report = json!({
                "device": backend.device().name(),
                "runtime": backend.runtime_description().to_string(),
                "to": kind.to_string(),
                "tensors": weights.tensors().len(),
                "bytes": weights.size_bytes(),
                "seconds": loads.iter().map(|load| load.0).collect::<Vec<_>>(),
                "gb_per_s": loads.iter().map(|load| load.1).collect::<Vec<_>>(),
                "peak_memory_bytes": peak,
            });
            match json {
                true => println!("{}", serde_json::to_string_pretty(&report)?),
                false => print!("{}", told(&report)),
            }
        }
        Task::Convert { files, output } => {
            let weights = Weights::open(files)?;
            let mut save = Save::new();
            for (key, value) in weights.metadata() {
                save.metadata(key, value);
            }
            for tensor in weights.tensors() {
                save.stored(&weights, tensor)?;
            }
            save.write(output)?;
        }
    }
    Ok(())
}

/// The seconds, and 10^9 bytes in each.
fn timed(weights: &Weights, work: impl FnOnce() -> Done) -> Done<(f64, f64)> {
    let start = Instant::now();
    work()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((seconds, weights.size_bytes() as f64 / seconds / 1e9))
}

/// Loads all, and waits until the bytes have arrived.
fn load(
    weights: &Weights,
    backend: &CudaBackend,
    kind: BufferKind,
    options: &LoadOptions,
    one_by_one: bool,
) -> Done {
    let mut all = None;
    if one_by_one {
        for tensor in weights.load_each(backend, kind, options)? {
            drop(tensor?);
        }
    } else {
        all = Some(weights.load(backend, kind, options)?);
    }
    backend.synchronize()?;
    drop(all);
    Ok(())
}

fn of_tensor(tensor: &TensorInfo) -> Value {
    json!({
        "name": tensor.name(),
        "dtype": tensor.dtype_name(),
        "shape": tensor.shape(),
        "bytes": tensor.size_bytes(),
        "file": tensor.file().display().to_string(),
        "offset": tensor.offset(),
    })
}

fn info(weights: &Weights) -> Value {
    json!({
        "files": weights
            .files()
            .map(|(path, format)| json!({ "path": path.display().to_string(), "format": format }))
            .collect::<Vec<_>>(),
        "metadata": weights.metadata(),
        "bytes": weights.size_bytes(),
        "tensors": weights.tensors().iter().map(of_tensor).collect::<Vec<_>>(),
    })
}

fn table(weights: &Weights) -> String {
    let mut text = String::new();
    for (path, format) in weights.files() {
        let _ = writeln!(text, "{} ({format})", path.display());
    }
    for (key, value) in weights.metadata() {
        let short: String = value.chars().take(100).collect();
        let _ = writeln!(text, "{} = {}", printable(key), printable(&short));
    }
    let width = weights
        .tensors()
        .iter()
        .map(|tensor| tensor.name().chars().count());
    let width = width.max().unwrap_or(0).min(80);
    for tensor in weights.tensors() {
        let _ = writeln!(
            text,
            "{:width$}  {:10} {:>14} bytes  {:?}",
            printable(tensor.name()),
            tensor.dtype_name(),
            tensor.size_bytes(),
            tensor.shape(),
        );
    }
    let (count, bytes) = (weights.tensors().len(), weights.size_bytes());
    let _ = writeln!(text, "{count} tensors, {bytes} bytes");
    text
}

/// A file may name its tensors with characters that change a terminal.
fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

fn told(report: &Value) -> String {
    let numbers = |name: &str| {
        let numbers = report[name].as_array().into_iter().flatten();
        let texts: Vec<_> = numbers
            .map(|number| format!("{:.3}", number.as_f64().unwrap_or(0.0)))
            .collect();
        texts.join(", ")
    };
    format!(
        "{} tensors, {} bytes to {} memory of {}\n{} GB/s ({} s)\npeak memory of the process: {} bytes\n",
        report["tensors"],
        report["bytes"],
        report["to"].as_str().unwrap_or(""),
        report["device"].as_str().unwrap_or(""),
        numbers("gb_per_s"),
        numbers("seconds"),
        report["peak_memory_bytes"],
    )
}

fn bar(done: u64, total: u64, time: Duration) {
    let part = (done as f64 / total.max(1) as f64).min(1.0);
    let filled = (part * 40.0) as usize;
    let speed = done as f64 / time.as_secs_f64().max(1e-9) / 1e9;
    eprint!(
        "\r[{:<40}] {:3.0} % {speed:.1} GB/s ",
        "#".repeat(filled),
        part * 100.0
    );
}

/// The largest resident memory of this process, if the system tells it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
