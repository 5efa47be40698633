//! The major versions of CUDA.

use anyhow::{Context, Result, anyhow, bail};
use std::path::Path;

/// The major versions that have their own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Major {
    V11,
    V12,
    V13,
}

impl Major {
    /// The major version of the headers in this folder.
    #[allow(
        dead_code,
        reason = "used only by the build script; xtask knows the version"
    )]
    pub fn of_headers(include: &Path) -> Result<Self> {
        let header = include.join("cuda_runtime_api.h");
        let text = std::fs::read_to_string(&header)
            .with_context(|| format!("cannot read {}", header.display()))?;
        let number = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("#define CUDART_VERSION"))
            .find_map(|rest| rest.trim().parse::<u32>().ok())
            .ok_or_else(|| anyhow!("{} does not define CUDART_VERSION", header.display()))?;
        match number / 1000 {
            11 => Ok(Self::V11),
            12 => Ok(Self::V12),
            13 => Ok(Self::V13),
            other => bail!(
                "{} is of CUDA {other}: only 11, 12 and 13 are supported",
                header.display()
            ),
        }
    }
}
