//! The programs of `docs/guide.md`, one file for each step: `guide share`, and so on; `guide` runs all of them.

/// The steps print without a panic if the output is closed (`| head`).
macro_rules! println {
    ($($text:tt)*) => { cuda_um_testkit::say!($($text)*) };
}
macro_rules! print {
    ($($text:tt)*) => { cuda_um_testkit::show(format_args!($($text)*)) };
}

mod advice;
mod errors;
mod kernel;
mod profile;
mod share;

use std::process::ExitCode;
use um_backend::{CudaBackend, CudaBackendConfig, CudaError};

type Step = fn(&CudaBackend) -> Result<(), CudaError>;

const STEPS: [(&str, Step); 5] = [
    ("share", share::run),
    ("kernel", kernel::run),
    ("profile", profile::run),
    ("advice", advice::run),
    ("errors", errors::run),
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1);
    let is_meant = |step: &&(&str, Step)| name.as_deref().is_none_or(|name| name == step.0);
    let mut steps = STEPS.iter().filter(is_meant).peekable();
    if steps.peek().is_none() {
        let names = STEPS.map(|(name, _)| name).join(", ");
        eprintln!("guide: the steps are {names}");
        return ExitCode::from(2);
    }
    match steps.try_for_each(|(_, step)| start(*step)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guide: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(step: Step) -> Result<(), CudaError> {
    let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    println!("{}", backend.runtime_description());
    step(&backend)
}
