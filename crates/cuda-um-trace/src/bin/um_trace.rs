//! `um_trace`: reports and pictures of recorded traces.

use clap::{Parser, Subcommand};
use cuda_um_cost::CostModel;
use cuda_um_trace::{MigrationReport, Trace, html, patterns, perfetto};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  um_trace report trace.json
  um_trace html trace.json -o report.html
  um_trace report trace.json --cost calibration.json --json | jq '.findings[0]'
  um_trace perfetto trace.json -o trace.perfetto.json    then open it at ui.perfetto.dev

Exit status: 0 done; 1 a file cannot be read, written or understood (one line says which); 2 wrong usage.";

/// Reports and pictures of unified memory migrations
#[derive(Parser)]
#[command(name = "um_trace", version, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Tables and findings for the terminal
    Report {
        #[command(flatten)]
        input: Input,
        /// All data, with exact values, as JSON
        #[arg(long)]
        json: bool,
    },
    /// A page: one file for any browser
    Html {
        #[command(flatten)]
        input: Input,
        #[command(flatten)]
        output: Output,
    },
    /// Trace events for ui.perfetto.dev or chrome://tracing
    Perfetto {
        #[command(flatten)]
        input: Input,
        #[command(flatten)]
        output: Output,
    },
    /// Contents of the trace, and the use of each buffer
    Stats {
        #[command(flatten)]
        input: Input,
    },
}

#[derive(clap::Args)]
struct Input {
    /// The trace file; - for standard input
    trace: PathBuf,
    /// A cost model as JSON [default: the built-in model of an H200]
    #[arg(long, value_name = "FILE")]
    cost: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Output {
    /// The output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let line = printable(&error).replace('\n', " ");
            // A closed standard error takes nothing.
            let _ = writeln!(std::io::stderr(), "um_trace: {line}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<(), String> {
    match task {
        Task::Report { input, json } => {
            let (_, report) = input.report()?;
            let text = match json {
                true => {
                    serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n"
                }
                false => report.to_string(),
            };
            write(None, &text)
        }
        Task::Html { input, output } => {
            let (trace, report) = input.report()?;
            write(output.output.as_deref(), &html(&trace, &report))
        }
        Task::Perfetto { input, output } => {
            write(output.output.as_deref(), &perfetto(&input.trace()?))
        }
        Task::Stats { input } => write(None, &printable(&stats(&input.trace()?))),
    }
}

impl Input {
    fn trace(&self) -> Result<Trace, String> {
        Trace::from_json(&read(&self.trace)?).map_err(|error| in_file(&self.trace, error))
    }

    fn report(&self) -> Result<(Trace, MigrationReport), String> {
        let model = match &self.cost {
            None => CostModel::h200(),
            Some(path) => CostModel::from_file(path).map_err(|error| in_file(path, error))?,
        };
        let trace = self.trace()?;
        let report = MigrationReport::of(&trace, &model);
        Ok((trace, report))
    }
}

fn read(path: &Path) -> Result<String, String> {
    let text = match path.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    text.map_err(|error| in_file(path, error))
}

/// Removes characters that a terminal must not get: names in files and errors may contain any character.
fn printable(text: &str) -> String {
    let shown = |letter: char| match letter.is_control() && letter != '\n' {
        true => '\u{fffd}',
        false => letter,
    };
    text.chars().map(shown).collect()
}

fn write(path: Option<&Path>, text: &str) -> Result<(), String> {
    match path {
        Some(path) => std::fs::write(path, text).map_err(|error| in_file(path, error)),
        None => match std::io::stdout().write_all(text.as_bytes()) {
            // The reader closed the pipe: `um_trace report … | head`.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(|error| format!("standard output: {error}")),
        },
    }
}

fn in_file(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn stats(trace: &Trace) -> String {
    let mut text = format!(
        "recorded by {} (CUDA {}); {} ns\n{} records ({} dropped), {} kernels, {} operations ({} dropped), {} buffers\n",
        trace.source.name,
        trace.source.cuda,
        trace.end.saturating_sub(trace.start),
        trace.records.len(),
        trace.dropped_records,
        trace.kernels.len(),
        trace.operations.len(),
        trace.dropped_operations,
        trace.buffers.len(),
    );
    for one in patterns(trace) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:?}: {}", one.name, one.usage);
        let _ = match one.suggests {
            Some(pattern) => writeln!(text, "; suggests {pattern}"),
            None => writeln!(text),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn control_characters_are_not_shown() {
        assert_eq!(printable("a\u{1b}[2J\nb\t"), "a\u{fffd}[2J\nb\u{fffd}");
    }
}
