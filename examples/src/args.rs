//! The command line of `batch_recall`.

use crate::devices::DeviceChoice;
use crate::truth::TruthSource;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  batch_recall                              the shipped set, all three buffers
  batch_recall --buffer cuda --filter off   all scores in single precision
  batch_recall --buffer unified --no-hints  unified memory, with page faults and without prefetches
  batch_recall --buffer unified --auto-prefetch
                                            the same, with prefetches that are planned from the first two runs
  batch_recall --targets t.npy --queries q.npy --target-texts t.txt -k 5
  batch_recall --targets t.npy --queries q.npy --budget 1GiB
                                            targets that do not fit on the GPU, or into a share of it
  batch_recall --devices all                the targets in shards, one for each GPU (docs/several-gpus.md)
  batch_recall --targets t.npy --queries q.npy --truth right.txt
                                            right.txt: the row of the right target, from 0, one line for each query
  batch_recall --buffer unified --no-hints --profile report.html
                                            a report of migrations with times and causes, and findings
  batch_recall --runtime sim --json | jq '.runs[] | [.buffer, .recall_at_1]'

Environment:
  CUDA_UM_CUDART     path of the libcudart to use
  CUDA_UM_SIM_GPU    the simulated GPU: h200, gh200, hmm, gb10, pascal, maxwell, no-concurrent
  CUDA_UM_SIM_CUDA   the simulated CUDA version: 11.8, 12.2, 12.9, 13.0, 13.4
  CUDA_UM_SIM_DEVICES  the number of simulated GPUs, 1 to 8
  CUDA_UM_DATA_DIR   folder that holds wordnet-1k, the shipped set

Exit status: 0 done; 1 an input is wrong or a call failed (one line describes it); 2 wrong usage.";

/// Finds for each query vector the targets with the highest cosine, once for each kind of buffer, and prints the cost of each
/// kind: time by phase, migrated bytes, page faults; and recall, if the right answers are known.
#[derive(Clone, Debug, Parser)]
#[command(name = "batch_recall", version, after_help = EXAMPLES)]
pub struct Args {
    /// Buffer implementation to use
    #[arg(long, value_enum, default_value_t = BufferChoice::All)]
    pub buffer: BufferChoice,

    /// The runtime: auto uses the GPU if there is one, otherwise the simulator
    #[arg(long, value_enum, default_value_t = RuntimeChoice::Auto, env = "CUDA_UM_RUNTIME")]
    pub runtime: RuntimeChoice,

    /// Vectors to search: .npy, f32 or f16, one in each row, C order [default: the shipped set]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,

    /// Vectors to search for: .npy, f32 or f16 [default: the shipped set]
    #[arg(long, value_name = "FILE")]
    pub queries: Option<PathBuf>,

    /// Texts of the targets, one in each line
    #[arg(long, value_name = "FILE")]
    pub target_texts: Option<PathBuf>,

    /// Texts of the queries, one in each line
    #[arg(long, value_name = "FILE")]
    pub query_texts: Option<PathBuf>,

    /// Number of best targets for each query
    #[arg(short, long, value_name = "K", default_value_t = 10)]
    pub k: usize,

    /// identity (query i belongs to target i), none, or a FILE: text with the row of the right target (from 0) in each line, or
    /// .npy of integers [default: identity for the shipped set, otherwise none]
    #[arg(long, value_name = "identity|none|FILE")]
    pub truth: Option<TruthSource>,

    /// The filter that selects the few targets to score exactly: tensor cores, in 16 or 8 bits. The host buffer
    /// is searched without one. The lists are bit-identical (docs/exact-search.md)
    #[arg(long, value_enum, default_value_t = FilterChoice::Auto)]
    pub filter: FilterChoice,

    /// Use at most so much device memory (1GiB, 512MiB) for the targets and the search: device buffers only; the targets stay in
    /// pinned memory, and the filter's copy of them streams through the device if it does not fit
    #[arg(long, value_name = "BYTES", value_parser = crate::budget::bytes, conflicts_with_all = ["no_hints", "auto_prefetch"])]
    pub budget: Option<usize>,

    /// Search on several GPUs at the same time, each with a part of the targets: all, or numbers with commas (0,1). Unified and device
    /// buffers only; the lists are bit-identical
    #[arg(long, value_name = "all|N,N", conflicts_with_all = ["budget", "no_hints", "auto_prefetch"])]
    pub devices: Option<DeviceChoice>,

    /// Use unified memory without advice and prefetch: the kernel moves its data by faults
    #[arg(long)]
    pub no_hints: bool,

    /// Run the job four times with unified memory, without hints, in a scope of automatic prefetch, and report the last run
    /// (docs/auto-prefetch.md)
    #[arg(long)]
    pub auto_prefetch: bool,

    /// Do not count migrations and page faults on a GPU, because recording takes some time
    #[arg(long)]
    pub no_counters: bool,

    /// Write the migrations with times and causes as JSON (a trace of cuda-um-trace); on a GPU this replaces the counters
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

/// `--buffer`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BufferChoice {
    /// One pointer for CPU and GPU, migrated by prefetch or by faults
    Unified,
    /// Device memory, with explicit copies
    Cuda,
    /// Plain memory; the CPU computes
    Host,
    /// All three, one after the other
    All,
}

/// `--filter`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FilterChoice {
    /// A filter if it is expected to be faster, and the device supports one
    Auto,
    /// No filter: all scores in single precision
    Off,
    /// Rows rounded to bf16
    Bf16,
    /// Rows rounded to half precision
    F16,
    /// Rows as 8-bit integers with a scale each
    Int8,
}

impl From<FilterChoice> for um_search::Filter {
    fn from(choice: FilterChoice) -> Self {
        match choice {
            FilterChoice::Auto => Self::Auto,
            FilterChoice::Off => Self::Off,
            FilterChoice::Bf16 => Self::Bf16,
            FilterChoice::F16 => Self::F16,
            FilterChoice::Int8 => Self::Int8,
        }
    }
}

impl Args {
    /// The kinds of buffers to run, in order.
    ///
    /// # Errors
    /// A budget for buffers other than those of the device, several devices for buffers of the host, and options of unified memory for other
    /// buffers.
    pub fn kinds(&self) -> Result<Vec<BufferKind>, crate::Failure> {
        let name = self.buffer.to_possible_value();
        let name = name.as_ref().map_or("this", |name| name.get_name());
        let of_unified = [
            ("--auto-prefetch", self.auto_prefetch),
            ("--no-hints", self.no_hints),
        ];
        if let Some((option, _)) = of_unified.iter().find(|(_, is_given)| *is_given)
            && matches!(self.buffer, BufferChoice::Cuda | BufferChoice::Host)
        {
            return Err(format!(
                "{option} is for unified memory, and --buffer {name} has none: use --buffer unified or all"
            )
            .into());
        }
        if self.devices.is_some() {
            return match self.buffer {
                BufferChoice::Host => Err("--devices is for memory of devices, and --buffer host has none: use --buffer unified, cuda or all".into()),
                BufferChoice::All => Ok(vec![BufferKind::Unified, BufferKind::Cuda]),
                buffer => Ok(buffer.kinds()),
            };
        }
        match (self.budget, self.buffer) {
            (None, buffer) => Ok(buffer.kinds()),
            (Some(_), BufferChoice::All | BufferChoice::Cuda) => Ok(vec![BufferKind::Cuda]),
            (Some(_), BufferChoice::Unified | BufferChoice::Host) => {
                Err(format!(
                    "--budget limits device memory, so --buffer {name} cannot have one: use --buffer cuda"
                )
                .into())
            }
        }
    }

    /// True if a trace is requested, in any form.
    pub fn is_profiled(&self) -> bool {
        self.trace.is_some() || self.profile.is_some()
    }
}

impl BufferChoice {
    /// The kinds to run, in order.
    pub fn kinds(self) -> Vec<BufferKind> {
        match self {
            Self::Unified => vec![BufferKind::Unified],
            Self::Cuda => vec![BufferKind::Cuda],
            Self::Host => vec![BufferKind::Host],
            Self::All => vec![BufferKind::Unified, BufferKind::Cuda, BufferKind::Host],
        }
    }
}

/// One implementation of `Buffer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BufferKind {
    /// `UnifiedBuffer`
    Unified,
    /// `CudaBuffer`
    Cuda,
    /// `HostBuffer`
    Host,
}

impl From<BufferKind> for um_backend::BufferKind {
    fn from(kind: BufferKind) -> Self {
        match kind {
            BufferKind::Unified => Self::Unified,
            BufferKind::Cuda => Self::Cuda,
            BufferKind::Host => Self::Host,
        }
    }
}

impl BufferKind {
    /// The name in `--buffer` and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Cuda => "cuda",
            Self::Host => "host",
        }
    }
}

/// `--runtime`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuntimeChoice {
    /// The GPU if there is one, otherwise the simulator
    Auto,
    /// The GPU
    Cuda,
    /// The simulator
    Sim,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn options_of_unified_memory_are_refused_for_other_buffers() {
        for option in ["--auto-prefetch", "--no-hints"] {
            let kinds =
                |buffer| Args::parse_from(["batch_recall", "--buffer", buffer, option]).kinds();
            for buffer in ["cuda", "host"] {
                let refused = kinds(buffer).unwrap_err().to_string();
                assert!(refused.contains(option), "{refused}");
                assert!(refused.contains("use --buffer unified or all"), "{refused}");
            }
            assert!(kinds("unified").is_ok() && kinds("all").is_ok());
        }
    }

    #[test]
    fn several_devices_have_no_host_buffer() {
        let kinds = |buffer| {
            let line = ["batch_recall", "--devices", "0,1", "--buffer", buffer];
            Args::parse_from(line).kinds()
        };
        let refused = kinds("host").unwrap_err().to_string();
        assert!(
            refused.contains("--devices is for memory of devices"),
            "{refused}"
        );
        assert_eq!(
            kinds("all").unwrap(),
            [BufferKind::Unified, BufferKind::Cuda]
        );
        assert_eq!(kinds("cuda").unwrap(), [BufferKind::Cuda]);
    }

    #[test]
    fn truth_takes_two_words_or_a_file() {
        let truth = |text| Args::parse_from(["batch_recall", "--truth", text]).truth;
        assert_eq!(truth("identity"), Some(TruthSource::Identity));
        assert_eq!(truth("none"), Some(TruthSource::None));
        assert_eq!(truth("x.npy"), Some(TruthSource::File("x.npy".into())));
    }
}
