//! The main job: cosine top-k of every query through `dyn Buffer`, once for each implementation.

use clap::Parser;
use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;
use um_examples::args::Args;
use um_examples::input::Inputs;
use um_examples::{Failure, batch_recall};

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("batch_recall: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let mut inputs = Inputs::load(args)?;
    let report = batch_recall::run(args, &mut inputs)?;
    let text = if args.json {
        serde_json::to_string(&report)? + "\n"
    } else {
        report.for_people(&inputs, args.show)
    };
    match stdout().lock().write_all(text.as_bytes()) {
        // The reader closed the pipe (`| head`).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written?,
    }
    match report.disagreement() {
        Some(place) => Err(format!("the buffers disagree: {place}").into()),
        None => Ok(()),
    }
}
