//! Finds libnccl.

use super::{Addresses, Nccl, NcclError};
use crate::Attempt;
use crate::loader::toolkits;
use crate::optional;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names a library file; if it is set, nothing else is tried.
const NCCL: &str = "CUDA_UM_NCCL";

/// The name is the same in all versions from 2.0 on.
const NAME: &str = "libnccl.so.2";

/// The folders of a toolkit, or of an installation of NCCL, that may contain it.
const FOLDERS: [&str; 2] = ["lib64", "lib"];

/// Opens libnccl, in the same way as [`Table::nccl`](crate::Table::nccl) for a loaded runtime.
///
/// # Errors
/// As for [`Table::nccl`](crate::Table::nccl).
pub fn open_nccl() -> Result<Nccl, NcclError> {
    let paths = candidates(std::env::var_os(NCCL), &toolkits());
    optional::first(paths, open_at)
        .map_err(|unfit| unfit.unwrap_or_else(|attempts| NcclError::NotFound { attempts }))
}

fn open_at(path: &Path) -> Result<Result<Nccl, NcclError>, Attempt> {
    // SAFETY: the name is that of NVIDIA's library, or a path that the user trusts.
    let mut resolve = unsafe { optional::open_at(path) }?;
    let addresses = Addresses::ask(&mut resolve);
    // SAFETY: the functions come from a libnccl with its documented name or a path that the user trusts, and it stays loaded.
    Ok(unsafe { Nccl::from_addresses(&addresses, Arc::new(())) })
}

fn candidates(named: Option<OsString>, toolkits: &[PathBuf]) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![named.into()];
    }
    let in_toolkits = toolkits
        .iter()
        .flat_map(|toolkit| FOLDERS.map(|folder| toolkit.join(folder).join(NAME)))
        .filter(|path| path.is_file());
    [PathBuf::from(NAME)]
        .into_iter()
        .chain(in_toolkits)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_candidate_and_an_empty_name_is_none() {
        let named = |name: &str| candidates(Some(name.into()), &[]);
        assert_eq!(named("/x/libnccl.so"), [PathBuf::from("/x/libnccl.so")]);
        assert_eq!(named(""), [PathBuf::from(NAME)]);
    }

    #[test]
    fn what_was_tried_is_told() {
        let attempt = open_at(Path::new("/nowhere/libnccl.so.2")).unwrap_err();
        let error = NcclError::NotFound {
            attempts: vec![attempt],
        };
        let text = error.to_string();
        assert!(text.contains("CUDA_UM_NCCL"), "{text}");
        assert!(text.contains("/nowhere/libnccl.so.2: "), "{text}");
    }
}
