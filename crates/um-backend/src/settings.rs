//! Environment variables that nothing reads, because their names are misspelt.

use crate::error::{CudaError, Result};
use std::ffi::OsStr;

/// The variables that the crates of this workspace read.
const KNOWN: [&str; 11] = [
    "CUDA_UM_COST_MODEL",
    "CUDA_UM_CUDART",
    "CUDA_UM_CUPTI",
    "CUDA_UM_MPI",
    "CUDA_UM_NVRTC",
    "CUDA_UM_POOLS",
    "CUDA_UM_RUNTIME",
    "CUDA_UM_SIM_CUDA",
    "CUDA_UM_SIM_DEVICES",
    "CUDA_UM_SIM_GPU",
    "CUDA_UM_SIM_KERNEL_CHECKS",
];

/// What the names of variables for tests and tools of this workspace begin with.
const OWN: [&str; 10] = [
    "BIN_DIR",
    "DATA_DIR",
    "FAULT_",
    "INCLUDE",
    "MODEL_",
    "PEERS_DIR",
    "SIM_CHILD",
    "SIM_CRASH",
    "STRESS_",
    "TEST_",
];

/// Refuses variables that begin with `CUDA_UM_` and that nothing reads.
pub(crate) fn check() -> Result<()> {
    let unknown = std::env::vars_os().find_map(|(name, _)| refusal(&name));
    unknown.map_or(Ok(()), Err)
}

fn refusal(name: &OsStr) -> Option<CudaError> {
    let name = name.to_string_lossy();
    let rest = name.strip_prefix("CUDA_UM_")?;
    if KNOWN.contains(&&*name) || OWN.iter().any(|own| rest.starts_with(own)) {
        return None;
    }
    let nearest = KNOWN.iter().min_by_key(|known| distance(&name, known));
    let nearest = nearest.filter(|known| distance(&name, known) <= 3);
    let meant = nearest.map_or(String::new(), |known| format!("is {known} meant? "));
    Some(CudaError::InvalidArgument {
        what: "the name of an environment variable",
        reason: format!(
            "nothing reads it: {meant}The names are {}",
            KNOWN.join(", ")
        ),
        value: name.into_owned(),
    })
}

/// The number of letters to insert, to remove or to replace.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, with) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != with);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
