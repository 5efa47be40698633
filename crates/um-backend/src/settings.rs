//! Environment variables that nothing reads, because their names are misspelt.

use crate::error::{CudaError, Result, invalid};
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
const OWN: [&str; 11] = [
    "BIN_DIR",
    "DATA_DIR",
    "FAULT_",
    "INCLUDE",
    "MODEL_",
    "MUTANTS",
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
    let reason = format!("nothing reads it: the names are {}", KNOWN.join(", "));
    Some(invalid("the name of an environment variable", name, reason))
}

#[cfg(test)]
mod tests;
