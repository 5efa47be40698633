//! Finds libcupti.

use super::{Addresses, Cupti, CuptiError};
use crate::Attempt;
use crate::loader::toolkits;
use crate::optional;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names a library file; if it is set, nothing else is tried.
const CUPTI: &str = "CUDA_UM_CUPTI";

/// The folders of a toolkit that may contain it.
const FOLDERS: [&str; 5] = ["extras/CUPTI/lib64", "lib64", "lib", "bin/x64", "bin"];

impl Cupti {
    /// Opens the libcupti for a runtime of this major version. If `CUDA_UM_CUPTI` (a trusted path) is set, only this path is
    /// tried. Otherwise it is searched by the name for the system's loader, and in `CUDA_HOME`, `CUDA_PATH` and
    /// `/usr/local/cuda*`.
    pub(crate) fn open(major: u32) -> Result<Self, CuptiError> {
        let cupti = open(major)?;
        Ok(Self {
            library: true,
            ..cupti
        })
    }
}

/// Opens the libcupti for a runtime of this major version, in the same way as [`Table::cupti`](crate::Table::cupti) for a
/// loaded runtime.
///
/// # Errors
/// As for [`Table::cupti`](crate::Table::cupti).
pub fn open_cupti(major: u32) -> Result<Cupti, CuptiError> {
    Cupti::open(major)
}

fn open(major: u32) -> Result<Cupti, CuptiError> {
    let paths = candidates(major, std::env::var_os(CUPTI), &toolkits());
    optional::first(paths, open_at).map_err(|unfit| {
        unfit.unwrap_or_else(|mut attempts| {
            if attempts.is_empty() {
                attempts.push(Attempt {
                    library: "cupti64_*.dll".to_owned(),
                    reason: "in no toolkit of CUDA_HOME and CUDA_PATH".to_owned(),
                });
            }
            CuptiError::NotFound { attempts }
        })
    })
}

fn open_at(path: &Path) -> Result<Result<Cupti, CuptiError>, Attempt> {
    // SAFETY: the names are those of NVIDIA's library, or a path that the user trusts.
    let mut resolve = unsafe { optional::open_at(path) }?;
    let addresses = Addresses::ask(&mut resolve);
    // SAFETY: the functions come from a libcupti with its documented name or a path that the user trusts, and it stays loaded.
    Ok(unsafe { Cupti::from_addresses(&addresses, Arc::new(())) })
}

fn candidates(major: u32, named: Option<OsString>, toolkits: &[PathBuf]) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![named.into()];
    }
    let name = name(major);
    let folders = toolkits
        .iter()
        .flat_map(|toolkit| FOLDERS.map(|folder| toolkit.join(folder)));
    let in_toolkits = folders.flat_map(|folder| match &name {
        Some(name) => Vec::from_iter(Some(folder.join(name)).filter(|path| path.is_file())),
        None => dlls(&folder),
    });
    let by_name = name.iter().map(PathBuf::from);
    by_name.chain(in_toolkits).collect()
}

/// The library's file name; `None` if it does not follow from the major version: on Windows it has the year and number of a release of CUPTI up
/// to CUDA 13.4.
fn name(major: u32) -> Option<String> {
    match major {
        _ if cfg!(windows) => None,
        11 => Some("libcupti.so.11.8".to_owned()),
        major => Some(format!("libcupti.so.{major}")),
    }
}

/// Each `cupti64_2025.3.1.dll` of a folder, newest first, and the `cupti64_13.dll` of CUDA 13.5.
fn dlls(folder: &Path) -> Vec<PathBuf> {
    let is_cupti = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("cupti64_") && name.ends_with(".dll")
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_cupti).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_candidate() {
        let toolkits = [PathBuf::from("/usr/local/cuda")];
        assert_eq!(
            candidates(13, Some("/x/libcupti.so".into()), &toolkits),
            [PathBuf::from("/x/libcupti.so")]
        );
    }

    #[test]
    fn a_folder_has_the_releases_for_windows() {
        let folder = std::env::temp_dir().join(format!("cuda-um-sys-cupti-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in [
            "cupti64_2022.3.0.dll",
            "cupti64_2025.3.1.dll",
            "cupti.lib",
            "nvperf_host.dll",
        ] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let newest_first =
            ["cupti64_2025.3.1.dll", "cupti64_2022.3.0.dll"].map(|name| folder.join(name));
        assert_eq!(dlls(&folder), newest_first);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(not(windows))]
    fn the_name_goes_with_the_major_version() {
        for (major, name) in [
            (11, "libcupti.so.11.8"),
            (12, "libcupti.so.12"),
            (13, "libcupti.so.13"),
        ] {
            assert_eq!(candidates(major, None, &[]), [PathBuf::from(name)]);
        }
    }

    #[test]
    fn what_was_tried_is_told() {
        let attempt = open_at(Path::new("/nowhere/libcupti.so.13")).unwrap_err();
        assert_eq!(attempt.library, "/nowhere/libcupti.so.13");
        assert!(attempt.reason.contains("No such file"), "{attempt:?}");
    }
}
