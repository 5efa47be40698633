//! `um_weights`: shows and loads files of weights.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use um_weights::um_backend::{BufferKind, CudaBackend, CudaBackendConfig};
use um_weights::{LoadOptions, TensorInfo, Weights, printable};

const EXAMPLES: &str = "\
Examples:
  um_weights info model.safetensors.index.json
  um_weights load model.safetensors --to unified --times 3 --json

Exit status: 0 done; 1 a file cannot be read or understood, or there is no GPU (one line says which); 2 wrong usage.";

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
        #[command(flatten)]
        from: Files,
        /// All data, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Loads the files, and tells the time
    Load {
        #[command(flatten)]
        from: Files,
        /// The kind of the buffers: unified, cuda, pinned or host
        #[arg(long, default_value = "cuda", value_parser = kind)]
        to: BufferKind,
        /// Loads so many times
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        times: usize,
        /// All data, as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Files {
    /// safetensors, GGUF, or an index (.json)
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// The outcome of a part of the program.
type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader, such as `head`, has all that it wants.
        Err(error)
            if error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) =>
        {
            ExitCode::SUCCESS
        }
        Err(error) => {
            // A closed standard error takes nothing.
            let _ = writeln!(
                io::stderr(),
                "um_weights: {}",
                printable(&error.to_string())
            );
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Done {
    let (Task::Info { from, .. } | Task::Load { from, .. }) = &task;
    let weights = Weights::open(&from.files)?;
    match task {
        Task::Info { json: true, .. } => print(&as_json(&info(&weights))?),
        Task::Info { .. } => print(&table(&weights)),
        Task::Load {
            to, times, json, ..
        } => load(&weights, to, times, json),
    }
}

fn print(text: &str) -> Done {
    let mut out = io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => error.into(),
        _ => format!("standard output: {error}").into(),
    })
}

fn kind(text: &str) -> Result<BufferKind, String> {
    let names = BufferKind::ALL.map(|kind| kind.to_string());
    let place = names.iter().position(|name| name == text);
    place
        .map(|place| BufferKind::ALL[place])
        .ok_or_else(|| format!("the kinds are {}", names.join(", ")))
}

/// Loads all so many times, each time until the bytes have arrived. Lines come as soon as they are known.
fn load(weights: &Weights, kind: BufferKind, times: usize, json: bool) -> Done {
    let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    let (device, to) = (backend.device().name(), kind.to_string());
    let (tensors, bytes) = (weights.tensors().len(), weights.size_bytes());
    if !json {
        print(&format!(
            "{tensors} tensors, {bytes} bytes to {to} memory of {device}\n"
        ))?;
    }
    let (mut seconds, mut speeds) = (Vec::new(), Vec::new());
    for _ in 0..times.max(1) {
        let start = Instant::now();
        let mut options = LoadOptions::default();
        if io::stderr().is_terminal() {
            options = options.progress(move |done, total| {
                bar(done, total, start.elapsed());
                ControlFlow::Continue(())
            });
        }
        let loaded = weights.load(&backend, kind, &options)?;
        backend.synchronize()?;
        let time = start.elapsed().as_secs_f64();
        drop(loaded);
        let speed = bytes as f64 / time / 1e9;
        if !json {
            print(&format!("{speed:.3} GB/s ({time:.3} s)\n"))?;
        }
        seconds.push(time);
        speeds.push(speed);
    }
    let peak = peak_bytes();
    if !json {
        let peak = peak.map_or("not known".to_owned(), |bytes| format!("{bytes} bytes"));
        return print(&format!("peak memory of the process: {peak}\n"));
    }
    let report = json!({
        "device": device,
        "runtime": backend.runtime_description().to_string(),
        "to": to,
        "tensors": tensors,
        "bytes": bytes,
        "seconds": seconds,
        "gb_per_s": speeds,
        "peak_memory_bytes": peak,
    });
    print(&as_json(&report)?)
}

/// JSON, in which characters that control a terminal are escapes.
fn as_json(value: &Value) -> Done<String> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let mut parts = [0; 2];
        match matches!(c, '\n' | ' '..='~')
            || *printable(c.encode_utf8(&mut [0; 4])) == *c.encode_utf8(&mut [0; 4])
        {
            true => shown.push(c),
            false => c.encode_utf16(&mut parts).iter().for_each(|part| {
                let _ = write!(shown, "\\u{part:04x}");
            }),
        }
    }
    Ok(shown)
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
    let of_file = |(path, format): (&Path, _)| json!({ "path": path.display().to_string(), "format": format });
    json!({
        "files": weights.files().map(of_file).collect::<Vec<_>>(),
        "metadata": weights.metadata(),
        "bytes": weights.size_bytes(),
        "tensors": weights.tensors().iter().map(of_tensor).collect::<Vec<_>>(),
    })
}

fn table(weights: &Weights) -> String {
    let mut text = String::new();
    for (path, format) in weights.files() {
        let _ = writeln!(text, "{} ({format})", printable(&path.to_string_lossy()));
    }
    for (key, value) in weights.metadata() {
        let short: String = value.chars().take(100).collect();
        let _ = writeln!(text, "{} = {}", printable(key), printable(&short));
    }
    let names = weights.tensors().iter().map(TensorInfo::name);
    let widest = names.fold(0, |most, name| most.max(name.chars().count()));
    let width = widest.min(80);
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

fn bar(done: u64, total: u64, time: Duration) {
    let part = (done as f64 / total.max(1) as f64).min(1.0);
    let speed = done as f64 / time.as_secs_f64().max(1e-9) / 1e9;
    let (filled, percent) = ("#".repeat((part * 40.0) as usize), part * 100.0);
    let end = if done < total { "" } else { "\n" };
    let _ = write!(
        io::stderr(),
        "\r[{filled:<40}] {percent:3.0} % {speed:.1} GB/s {end}"
    );
}

/// The largest resident memory of this process, if the system tells it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
