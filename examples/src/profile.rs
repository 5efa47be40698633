//! Writes the trace of a run to files.

use crate::Failure;
use crate::args::Args;
use cuda_um::cost::CostModel;
use um_backend::profile::trace::{MigrationReport, Trace, html};
use std::path::Path;

/// Writes the files that the command line names.
pub(crate) fn write(args: &Args, trace: &Trace, model: &CostModel) -> Result<(), Failure> {
    if let Some(path) = &args.trace {
        write_file(path, &trace.to_json())?;
    }
    if let Some(path) = &args.profile {
        write_file(path, &html(trace, &MigrationReport::of(trace, model)))?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}
