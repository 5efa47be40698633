//! The command line.

use std::path::PathBuf;
use um_backend::{BufferKind, RuntimeChoice};

const EXAMPLES: &str = "\
Examples:
  batch_recall --no-hints --profile r.html  page faults without hints, as a page with causes and findings
  batch_recall --targets t.npy --queries q.npy -k 5
  batch_recall --json | jq '.runs[] | [.buffer, .recall_at_1]'

Exit status: 0 done; 1 an input is wrong or a call failed (one line describes it); 2 wrong usage.";

/// Finds for each query vector the targets with the highest cosine, once for each kind of buffer, and prints the cost of each
/// kind: time by phase, migrated bytes, page faults; and recall for the shipped set.
#[derive(clap::Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    /// Memory with one pointer for CPU and GPU, device memory, plain memory (the CPU computes), or each of them
    #[arg(long, value_parser = ["unified", "cuda", "host", "all"], default_value = "all")]
    buffer: String,
    /// The GPU, the simulator, or the GPU if there is one [default: CUDA_UM_RUNTIME, otherwise auto]
    #[arg(long, value_parser = ["cuda", "sim", "auto"])]
    runtime: Option<String>,
    /// Vectors to search: .npy, f32 or f16. The lines of a .txt with the same name are shown [default: the shipped set]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// Vectors to search for, as the targets [default: the shipped set]
    #[arg(long, value_name = "FILE")]
    pub queries: Option<PathBuf>,
    /// Number of best targets for each query, at most 1024
    #[arg(short, value_name = "K", default_value_t = 10)]
    pub k: usize,
    /// Use unified memory without advice and prefetch: the kernel moves its data by faults
    #[arg(long)]
    pub no_hints: bool,
    /// Write a trace of the migrations, with times and causes, as JSON; on a GPU this replaces the counters
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the trace as a page with findings, timeline and residency map (docs/observing.md)
    #[arg(long, value_name = "FILE.html")]
    pub profile: Option<PathBuf>,
    /// Print one JSON object on standard output, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// Number of queries to show with their matches
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub show: usize,
}

impl Args {
    pub fn runtime(&self) -> RuntimeChoice {
        match self.runtime.as_deref() {
            Some("cuda") => RuntimeChoice::Cuda,
            Some("sim") => RuntimeChoice::Sim,
            Some(_) => RuntimeChoice::Auto,
            None => RuntimeChoice::Environment,
        }
    }

    pub fn kinds(&self) -> impl Iterator<Item = BufferKind> {
        let kinds = [BufferKind::Unified, BufferKind::Cuda, BufferKind::Host];
        let is_chosen = |kind: &BufferKind| ["all", &kind.to_string()].contains(&&*self.buffer);
        kinds.into_iter().filter(is_chosen)
    }
}
