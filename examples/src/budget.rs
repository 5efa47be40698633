//! A search within a limit of device memory (`--budget`): the rows of the targets stay in pinned memory, the device has their copy for
//! the filter, whole or in pieces.

use crate::Failure;
use crate::args::BufferKind;
use crate::progress::Progress;
use cuda_um::Stream;
use um_backend::{Buffer, Element};
use um_search::{
    ExactTopK, Filter, Format, Metric, PiecewiseTargets, SearchBuffers, SearchPath, TargetScalar,
    TopKShape,
};

/// The units of `--budget`, the longest ending first.
const UNITS: [(&str, usize); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("", 1),
];

/// Reads a number of bytes such as `1GiB`.
///
/// # Errors
/// It is not a whole number with one of the units.
pub fn bytes(text: &str) -> Result<usize, String> {
    let split = |&(unit, size)| Some((text.strip_suffix(unit)?.trim_end(), size));
    let parsed = UNITS.iter().find_map(split);
    let parsed = parsed.and_then(|(number, size)| Some((number.parse::<usize>().ok()?, size)));
    let bytes = parsed.and_then(|(number, size)| number.checked_mul(size));
    bytes.ok_or_else(|| {
        "expected a whole number of bytes, KiB, MiB or GiB, such as 512MiB".to_owned()
    })
}

/// Converts the targets for searches that use at most `budget` bytes of device memory.
///
/// # Errors
/// There is no filter, or the budget is too small; the message has the least number.
pub fn prepare<T: Element + TargetScalar>(
    kernel: &ExactTopK,
    (stream, filter): (&Stream, Filter),
    targets: &dyn Buffer<T>,
    shape: TopKShape,
    budget: usize,
) -> Result<PiecewiseTargets, Failure> {
    let format = match filter {
        // The fewest bytes.
        Filter::Auto | Filter::Int8 => Format::Int8,
        Filter::F16 => Format::F16,
        Filter::Bf16 => Format::Bf16,
        _ => return Err("--budget needs a filter: without one the device reads all rows over the link; leave out --filter off".into()),
    };
    let progress = Progress::new(BufferKind::Cuda, shape.targets, "targets converted");
    let rows = targets.memory().device_view()?;
    let metric = Metric::Cosine;
    let at = |done| progress.at(done);
    Ok(kernel.prepare_within(stream, rows, shape.dim, metric, format, budget, at)?)
}

/// Searches, and returns when it is done.
///
/// # Errors
/// Errors of the launch.
pub fn search<T: Element + TargetScalar>(
    kernel: &ExactTopK,
    stream: &Stream,
    shape: TopKShape,
    prepared: &mut PiecewiseTargets,
    buffers: SearchBuffers<'_, T>,
) -> Result<SearchPath, Failure> {
    let progress = Progress::new(BufferKind::Cuda, shape.targets, "targets searched");
    let at = |done| progress.at(done);
    let path = kernel.launch_within(stream, shape, prepared, buffers, at)?;
    stream.synchronize()?;
    Ok(path)
}

/// Where the targets are, for the notes of a run.
pub fn note(prepared: &PiecewiseTargets, row_bytes: usize) -> String {
    let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64);
    let copy = match prepared.pieces() {
        1 => "all of their copy for the filter".to_owned(),
        pieces => format!(
            "{pieces} pieces of their copy for the filter in turn, from {} of pinned memory",
            mib(prepared.host_bytes())
        ),
    };
    format!(
        "budget: the targets are in {} of pinned memory; {} of the {} of device memory have {copy}",
        mib(row_bytes),
        mib(prepared.device_bytes()),
        mib(prepared.budget_bytes()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("1GiB"), Ok(1 << 30));
        assert_eq!(bytes("512 MiB"), Ok(512 << 20));
        assert_eq!(bytes("3KiB"), Ok(3 << 10));
        assert_eq!(bytes("7"), Ok(7));
        for wrong in ["", "GiB", "1.5GiB", "-1", "1GB", "99999999999GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
