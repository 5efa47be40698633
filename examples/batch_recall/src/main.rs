//! The main job: finds for each query vector the targets with the highest cosine, through `dyn Buffer`, once for each kind of
//! buffer, and prints what each kind costs.

mod args;
mod inputs;
mod job;
mod report;

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// The error that ends the program.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let Err(failure) = run(&clap::Parser::parse()) else {
        return ExitCode::SUCCESS;
    };
    // One line, whatever a file holds.
    let line = failure.to_string().replace(char::is_control, " ");
    // A closed standard error takes nothing.
    let _ = writeln!(std::io::stderr(), "batch_recall: {line}");
    ExitCode::FAILURE
}

fn run(args: &args::Args) -> Result<(), Failure> {
    // Before the work, which would be lost if they could not be written.
    for path in args.trace.iter().chain(&args.profile) {
        let file = File::options().append(true).create(true).open(path);
        file.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let inputs = inputs::Inputs::load(args)?;
    let (report, files) = job::run(args, &inputs)?;
    let text = match args.json {
        true => format!("{report}\n"),
        false => report::text(&report, &inputs, args),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // The reader closed the pipe (`| head`).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.map_err(|error| format!("standard output: {error}"))?,
    }
    files?;
    match report["agree"] == true {
        true => Ok(()),
        false => Err("the kinds of buffers have different cosines".into()),
    }
}
