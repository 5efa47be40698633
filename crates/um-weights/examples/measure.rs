//! Measures loads of files: alone, from the disk, several at once, beside other work, beside a mapping; and compares every byte. Prints JSON.
//!
//! `cargo run --release -p um-weights --features cli --example measure -- FILE… --check --cold --at-once 2 --beside-steps --compare`

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use serde_json::{Value, json};
use um_weights::um_backend::cuda_um::buffer::TransferOptions;
use um_weights::um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType};
use um_weights::{LoadOptions, Tensor, Weights};

/// The bytes of a plain read.
const PIECE: usize = 4 << 20;

/// Measures loads of files
#[derive(Parser)]
struct Args {
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// unified, cuda, pinned or host
    #[arg(long, default_value = "cuda")]
    to: String,
    #[arg(long, default_value_t = 3)]
    times: usize,
    /// The threads of loads and of plain reads [default: those of the device's options]
    #[arg(long)]
    threads: Option<usize>,
    #[arg(long)]
    ring_mib: Option<usize>,
    /// Copies each tensor back and compares it with its file
    #[arg(long)]
    check: bool,
    /// Drops each tensor when it arrives, so that files larger than the memory are loaded
    #[arg(long)]
    each: bool,
    /// Also loads with an empty page cache, and reads the files by plain reads
    #[arg(long)]
    cold: bool,
    /// Also so many loads at a time
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    /// Also beside steps of another thread: 1 MiB to the device, writes of STEP_MIB there, 4 KiB back
    #[arg(long)]
    beside_steps: bool,
    #[arg(long, default_value_t = 256)]
    step_mib: usize,
    /// Also maps the files and copies each tensor with cudaMemcpy, as other libraries do
    #[arg(long)]
    compare: bool,
}

type Done<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

struct Loads {
    backend: CudaBackend,
    weights: Weights,
    kind: BufferKind,
    options: LoadOptions,
    threads: usize,
}

fn main() -> Done {
    let args = Args::parse();
    let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    let mut ring = TransferOptions::default();
    let mut options = LoadOptions::default();
    if let Some(threads) = args.threads {
        ring = ring.threads(threads).ring_bytes(threads * 2 * PIECE);
        options = options.threads(threads);
    }
    if let Some(mib) = args.ring_mib {
        ring = ring.ring_bytes(mib << 20);
    }
    backend.device().set_transfer_options(ring);
    let start = Instant::now();
    let weights = Weights::open(&args.files)?;
    let open = start.elapsed().as_secs_f64();
    let cores = std::thread::available_parallelism()?.get();
    let loads = Loads {
        kind: match BufferKind::ALL
            .into_iter()
            .find(|kind| kind.to_string() == args.to)
        {
            Some(kind) => kind,
            None => return Err(format!("--to {}: {:?}", args.to, BufferKind::ALL).into()),
        },
        options,
        threads: args.threads.unwrap_or((cores * 3 / 4).clamp(1, 12)),
        backend,
        weights,
    };
    let mut report = json!({
        "device": loads.backend.device().name(),
        "runtime": loads.backend.runtime_description().to_string(),
        "to": args.to,
        "tensors": loads.weights.tensors().len(),
        "bytes": loads.weights.size_bytes(),
        "open_seconds": open,
    });
    let mut alone = Vec::new();
    for _ in 0..args.times.max(1) {
        alone.push(match args.each {
            true => loads.speed(1, || loads.load_each())?,
            false => loads.speed(1, || loads.load())?,
        });
    }
    report["gb_per_s"] = json!(alone);
    report["peak_memory_bytes"] = json!(peak_bytes());
    let best = alone.iter().copied().fold(0.0, f64::max);
    if args.check {
        report["checked_bytes"] = json!(loads.check()?);
    }
    if args.cold {
        let (mut cold, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..args.times.max(1) {
            loads.empty_cache()?;
            plain.push(loads.speed(1, || loads.plain_reads())?);
            loads.empty_cache()?;
            cold.push(loads.speed(1, || loads.load())?);
        }
        report["from_disk"] = json!({ "gb_per_s": cold, "plain_reads_gb_per_s": plain });
    }
    if args.at_once > 1 {
        report["at_once"] = loads.at_once(args.at_once, best)?;
    }
    if args.beside_steps {
        report["beside_steps"] =
            loads.beside_steps(args.step_mib << 20, args.times.max(1), best)?;
    }
    if args.compare {
        // The driver's own copies.
        let none = TransferOptions::default().ring_bytes(0);
        loads.backend.device().set_transfer_options(none);
        report["mmap_and_memcpy_gb_per_s"] = json!(loads.speed(1, || loads.mapped_copies())?);
    }
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

impl Loads {
    /// 10^9 bytes a second of so many loads, without the time of the drop.
    fn speed<T>(&self, loads: u64, work: impl FnOnce() -> Done<T>) -> Done<f64> {
        let start = Instant::now();
        let _loaded = work()?;
        let bytes = (loads * self.weights.size_bytes()) as f64;
        Ok(bytes / start.elapsed().as_secs_f64() / 1e9)
    }

    /// Loads all, and waits until the bytes have arrived.
    fn load(&self) -> Done<BTreeMap<Arc<str>, Tensor>> {
        let tensors = self.weights.load(&self.backend, self.kind, &self.options)?;
        // Copies run in the order of the file. `synchronize` would wait for the work of others.
        if let Some(last) = self.weights.tensors().last() {
            Self::wait(&tensors[last.name()])?;
        }
        Ok(tensors)
    }

    /// Loads all, and keeps one tensor at a time.
    fn load_each(&self) -> Done {
        let mut last = None;
        for tensor in (self.weights).load_each(&self.backend, self.kind, &self.options)? {
            last = Some(tensor?);
        }
        last.as_ref().map_or(Ok(()), Self::wait)
    }

    /// Waits until the bytes of a tensor are there.
    fn wait(tensor: &Tensor) -> Done {
        let buffer = tensor.buffer().read()?;
        let (end, width) = (buffer.len().min(1), buffer.dtype().size_bytes());
        Ok(buffer.copy_to_bytes_at(buffer.len() - end, &mut vec![0; end * width])?)
    }

    /// Compares each byte with the file, and returns their number.
    fn check(&self) -> Done<usize> {
        let tensors = self.weights.load(&self.backend, self.kind, &self.options)?;
        let (mut files, mut found, mut right, mut checked) =
            (HashMap::new(), Vec::new(), Vec::new(), 0);
        for (name, tensor) in &tensors {
            let info = tensor.info();
            let file = match files.entry(info.file()) {
                std::collections::hash_map::Entry::Occupied(file) => file.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(File::open(info.file())?)
                }
            };
            right.resize(info.size_bytes(), 0);
            found.resize(info.size_bytes(), 0);
            file.read_exact_at(&mut right, info.offset())?;
            tensor.buffer().read()?.copy_to_bytes(&mut found)?;
            if let Some(at) = (0..right.len()).find(|&at| right[at] != found[at]) {
                return Err(format!("tensor {name:?} has another byte {at} than its file").into());
            }
            checked += right.len();
        }
        Ok(checked)
    }

    /// Writes the files to the disk, and drops their pages from the system's cache.
    fn empty_cache(&self) -> Done {
        for (path, _) in self.weights.files() {
            let file = File::open(path)?;
            file.sync_all()?;
            #[cfg(target_os = "linux")]
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Reads the files, and does nothing with the bytes.
    fn plain_reads(&self) -> Done {
        for (path, _) in self.weights.files() {
            let (file, next) = (File::open(path)?, AtomicU64::new(0));
            let read = || -> std::io::Result<()> {
                let mut piece = vec![0; PIECE];
                let at = || next.fetch_add(PIECE as u64, Ordering::Relaxed);
                while file.read_at(&mut piece, at())? > 0 {}
                Ok(())
            };
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(read)).collect();
                let mut ends = threads
                    .into_iter()
                    .map(|thread| thread.join().expect("it does not panic"));
                ends.try_for_each(|end| end)
            })?;
        }
        Ok(())
    }

    fn at_once(&self, count: usize, best: f64) -> Done<Value> {
        let mut each = Vec::new();
        let all = self.speed(count as u64, || {
            each = std::thread::scope(|scope| {
                let one = || self.speed(1, || self.load());
                let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
                let ends = threads
                    .into_iter()
                    .map(|thread| thread.join().expect("it does not panic"));
                ends.collect::<Done<Vec<f64>>>()
            })?;
            Ok(())
        })?;
        let slower: Vec<f64> = each.iter().map(|speed| best / speed).collect();
        Ok(json!({ "gb_per_s": each, "together_gb_per_s": all, "slower_than_alone": slower }))
    }

    /// Does steps until `end`, and returns how many there were each second.
    fn steps(&self, bytes: usize, end: impl Fn() -> bool) -> Done<f64> {
        let create = |bytes| {
            self.backend
                .create_erased(BufferKind::Cuda, DType::U8, bytes)
        };
        let (mut input, mut state) = (create(1 << 20)?, create(bytes)?);
        let (batch, mut result) = (vec![1; 1 << 20], vec![0; 4096.min(bytes)]);
        let (start, mut count) = (Instant::now(), 0);
        while !end() {
            input.copy_from_bytes(&batch)?;
            for _ in 0..4 {
                state.set_zero()?;
            }
            state.copy_to_bytes_at(0, &mut result)?;
            count += 1;
        }
        Ok(f64::from(count) / start.elapsed().as_secs_f64())
    }

    fn beside_steps(&self, bytes: usize, times: usize, best: f64) -> Done<Value> {
        let start = Instant::now();
        let steps_alone = self.steps(bytes, || start.elapsed().as_secs_f64() > 1.0)?;
        let is_over = AtomicBool::new(false);
        let (mut loads, mut steps) = (Vec::new(), 0.0);
        std::thread::scope(|scope| -> Done {
            let beside = scope.spawn(|| self.steps(bytes, || is_over.load(Ordering::Relaxed)));
            let outcome = (0..times).try_for_each(|_| {
                loads.push(self.speed(1, || self.load())?);
                Ok(())
            });
            is_over.store(true, Ordering::Relaxed);
            steps = beside.join().expect("it does not panic")?;
            outcome
        })?;
        let beside = loads.iter().copied().fold(0.0, f64::max);
        Ok(json!({
            "gb_per_s": loads,
            "load_slower_than_alone": best / beside,
            "steps_per_s_alone": steps_alone,
            "steps_per_s": steps,
            "steps_slower_than_alone": steps_alone / steps,
        }))
    }

    /// What other libraries do: maps the files, and copies each tensor by the driver.
    fn mapped_copies(&self) -> Done {
        for (path, _) in self.weights.files() {
            let file = File::open(path)?;
            // SAFETY: the file is only read, in a measurement; a file that shrinks ends the program.
            #[allow(unsafe_code, reason = "the way that is measured")]
            let mapping = unsafe { memmap2::Mmap::map(&file) }?;
            let tensors = self.weights.tensors().iter();
            for tensor in tensors.filter(|tensor| tensor.file() == path) {
                let bytes = &mapping[tensor.offset() as usize..][..tensor.size_bytes()];
                drop(
                    self.backend
                        .create_erased_from(self.kind, tensor.dtype(), bytes)?,
                );
            }
        }
        Ok(self.backend.synchronize()?)
    }
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
