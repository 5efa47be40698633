//! Measures and checks what several devices do together.

use anyhow::{Result, bail};
use clap::Parser;
use std::process::ExitCode;
use um_benches::scale::{Machine, SECTIONS};

/// Measures and checks what several devices do together
///
/// Writes tables to standard output, and lines that begin with "skipped:" for what the machine cannot do. A wrong result is a failure.
#[derive(Parser)]
struct Args {
    /// The sections to run [default: all]
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
    /// Simulate so many devices (1 to 8) instead of using the GPUs of this machine
    #[arg(long, value_name = "DEVICES")]
    sim: Option<usize>,
    /// Only sizes up to 16 MiB, and fewer rounds
    #[arg(long)]
    quick: bool,
    /// Only list the sections
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    if std::env::var_os("NCCL_NVLS_ENABLE").is_none() {
        #[allow(unsafe_code, reason = "sets a variable before any thread")]
        // SAFETY: no other thread runs.
        unsafe {
            std::env::set_var("NCCL_NVLS_ENABLE", "0");
        }
    }
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("um_scale: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let is_unknown = |name: &&String| !SECTIONS.iter().any(|it| it.name == **name);
    if let Some(name) = args.sections.iter().find(is_unknown) {
        let names: Vec<_> = SECTIONS.iter().map(|it| it.name).collect();
        bail!("there is no section {name}: {}", names.join(", "));
    }
    let is_chosen =
        |name: &str| args.sections.is_empty() || args.sections.iter().any(|it| it == name);
    let chosen = SECTIONS.iter().filter(|it| is_chosen(it.name));
    if args.list {
        chosen.for_each(|it| println!("{:<16} {}", it.name, it.what));
        return Ok(());
    }
    let machine = Machine::open(args.sim, args.quick)?;
    let times = match args.sim {
        Some(_) => "simulated times",
        None => "measured times",
    };
    for (index, device) in machine.devices.iter().enumerate() {
        println!("device {index}: {}, {times}", device.name());
    }
    for section in chosen {
        println!("\n## {}: {}\n", section.name, section.what);
        (section.run)(&machine)?;
        machine.trim()?;
    }
    Ok(())
}
