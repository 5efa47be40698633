//! Finds a CUDA runtime library at run time.
//!
//! `CUDA_UM_CUDART`, `CUDA_HOME` and `CUDA_PATH` select code that is loaded into this process: they are trusted input.

use crate::variable::{RELATIVE, depends_on_folder, variable};
use crate::{Attempt, LoadError, Table};
use libloading::Library;
use std::ffi::{CStr, OsString, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names a library file (a path, or a name for the system's loader); if it is set, nothing else is tried.
const CUDART: &str = "CUDA_UM_CUDART";

#[cfg(windows)]
const NAMES: [(&str, u32); 3] = [
    ("cudart64_13.dll", 13),
    ("cudart64_12.dll", 12),
    ("cudart64_110.dll", 11),
];
#[cfg(not(windows))]
const NAMES: [(&str, u32); 3] = [
    ("libcudart.so.13", 13),
    ("libcudart.so.12", 12),
    ("libcudart.so.11.0", 11),
];

/// Folders of a toolkit that may contain its libraries.
const FOLDERS: [&str; 4] = ["lib64", "lib", "bin/x64", "bin"];

/// Loads the CUDA runtime of this machine.
///
/// If `CUDA_UM_CUDART` is set, only this library is tried: an absolute path, or a name for the system's loader. Otherwise the order is: the libraries of CUDA 13, 12 and 11 by the
/// names for the system's loader; then the same names in `CUDA_HOME`, `CUDA_PATH` and, except on Windows, `/usr/local/cuda*`. The first library
/// that opens and has every function is used. No GPU and no driver are needed. An empty variable counts as unset, and a relative path is
/// refused: otherwise the current folder would choose the code that runs.
///
/// Loading a library runs its code, so these variables are trusted, like `LD_LIBRARY_PATH`. A program that has more rights than
/// the user that sets its environment must clear them first. The library stays loaded after the table is dropped.
///
/// # Errors
/// [`LoadError::NotFound`] with all attempts in order, and the reasons why they failed.
///
/// # Examples
/// ```
/// match cuda_um_sys::load() {
///     Ok(table) => println!("CUDA runtime {}", table.version()),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub fn load() -> Result<Arc<Table>, LoadError> {
    let mut attempts = Vec::new();
    for candidate in candidates(variable(CUDART), &toolkits()) {
        let library = match candidate {
            Ok(library) => library,
            Err(attempt) => {
                attempts.push(attempt);
                continue;
            }
        };
        // SAFETY: a library with one of CUDA's names, or one that a trusted variable names; see the documentation of this
        // function.
        match unsafe { load_from(&library) } {
            Ok(table) => return Ok(table),
            Err(LoadError::NotFound { attempts: tried }) => attempts.extend(tried),
            Err(error) => attempts.push(Attempt {
                library: library.display().to_string(),
                reason: error.to_string(),
            }),
        }
    }
    Err(LoadError::NotFound { attempts })
}

/// Loads one library, by its path or by a name for the system's loader.
///
/// The library stays loaded after the table is dropped.
///
/// # Errors
/// [`LoadError::NotFound`] with the loader's message, or another variant that describes the problem of the library.
///
/// # Safety
/// - The library is a CUDA runtime: its functions have the signatures and the behaviour that CUDA documents for their names in
///   the version that it reports. Only names are compared; no check can prove the behaviour of the functions.
/// - Its initialisers, which run on loading, are sound to run in this process.
///
/// # Examples
/// ```no_run
/// // SAFETY: NVIDIA's library, in the folder where its installer puts it.
/// let table = unsafe { cuda_um_sys::load_from("/usr/local/cuda/lib64/libcudart.so.12")? };
/// println!("CUDA runtime {}", table.version());
/// # Ok::<(), cuda_um_sys::LoadError>(())
/// ```
///
/// Safe code cannot name a library:
/// ```compile_fail,E0133
/// let table = cuda_um_sys::load_from("/usr/local/cuda/lib64/libcudart.so.12");
/// ```
pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<Arc<Table>, LoadError> {
    let path = path.as_ref();
    let not_found = |error: libloading::Error| LoadError::NotFound {
        attempts: vec![attempt(path, reason(&error))],
    };
    // SAFETY: the caller guarantees that this is a CUDA runtime, and that its initialisers may run.
    let library = Arc::new(unsafe { Library::new(path) }.map_err(not_found)?);
    let symbols = Arc::clone(&library);
    let mut resolve = |name: &CStr| -> *const c_void {
        // SAFETY: the address is not used here; the table gives it its type.
        let found = unsafe { symbols.get::<*const c_void>(name.to_bytes_with_nul()) };
        found.map_or(std::ptr::null(), |symbol| *symbol)
    };
    // SAFETY: the caller guarantees that this is a CUDA runtime; it stays open as long as the table lives.
    let table = unsafe {
        Table::from_symbols(Arc::clone(&library) as _, soname_major(path), &mut resolve)
    }?
    .with_library_for_cupti();
    // The library is never unloaded: CUDA starts threads and registers exit handlers, and these need its code.
    std::mem::forget(library);
    Ok(Arc::new(table))
}

fn attempt(library: &Path, reason: impl Into<String>) -> Attempt {
    Attempt {
        library: library.display().to_string(),
        reason: reason.into(),
    }
}

/// The message of the system's loader, which names the missing file; `libloading` stores it separately.
pub(crate) fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The libraries to try, in order; an `Err` for a toolkit that has none.
fn candidates(named: Option<OsString>, toolkits: &[PathBuf]) -> Vec<Result<PathBuf, Attempt>> {
    if let Some(named) = named.map(PathBuf::from) {
        return vec![match depends_on_folder(&named) {
            false => Ok(named),
            true => Err(attempt(&named, RELATIVE)),
        }];
    }
    let mut found: Vec<_> = NAMES
        .iter()
        .map(|(name, _)| Ok(PathBuf::from(name)))
        .collect();
    for toolkit in toolkits {
        if toolkit.is_relative() {
            found.push(Err(attempt(toolkit, RELATIVE)));
            continue;
        }
        let places = NAMES
            .iter()
            .flat_map(|(name, _)| FOLDERS.map(|folder| toolkit.join(folder).join(name)));
        let before = found.len();
        found.extend(places.filter(|place| place.is_file()).map(Ok));
        if found.len() == before {
            found.push(Err(attempt(toolkit, "no CUDA runtime library in it")));
        }
    }
    found
}

/// The folders of toolkits: those that the environment names, then those where installers of Linux put them. The installer of Windows sets
/// `CUDA_PATH`.
pub(crate) fn toolkits() -> Vec<PathBuf> {
    let mut toolkits: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(variable)
        .map(PathBuf::from)
        .collect();
    if cfg!(not(windows)) {
        toolkits.extend(installed_toolkits(Path::new("/usr/local")));
    }
    toolkits
}

/// `/usr/local/cuda`, and `/usr/local/cuda-13.0` and similar folders, newest first.
fn installed_toolkits(parent: &Path) -> Vec<PathBuf> {
    let version = |path: &Path| -> Vec<u32> {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        name.trim_start_matches("cuda-")
            .split('.')
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    let entries = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut versions: Vec<PathBuf> = entries
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("cuda-"))
        })
        .collect();
    versions.sort_by_key(|path| std::cmp::Reverse(version(path)));
    versions.insert(0, parent.join("cuda"));
    versions
}

/// The major version in a library's name, with links resolved: a plain `libcudart.so` may point to a name with the version.
fn soname_major(path: &Path) -> Option<u32> {
    let real = std::fs::canonicalize(path).ok();
    [Some(path), real.as_deref()]
        .into_iter()
        .flatten()
        .find_map(|path| {
            let name = path.file_name()?.to_str()?;
            let number = match name.strip_prefix("libcudart.so.") {
                Some(rest) => rest.split('.').next()?.parse().ok()?,
                None => name
                    .strip_prefix("cudart64_")?
                    .strip_suffix(".dll")?
                    .parse()
                    .ok()?,
            };
            Some(if number == 110 { 11 } else { number })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_candidate() {
        let toolkits = [PathBuf::from("/usr/local/cuda")];
        assert_eq!(
            candidates(Some("/x/libcudart.so".into()), &toolkits),
            [Ok(PathBuf::from("/x/libcudart.so"))]
        );
    }

    #[test]
    fn the_current_folder_chooses_no_library() {
        for named in ["./libcudart.so.13", "lib64/libcudart.so.13"] {
            let refused = Err(attempt(Path::new(named), RELATIVE));
            assert_eq!(candidates(Some(named.into()), &[]), [refused]);
        }
        let by_name = Ok(PathBuf::from(NAMES[0].0));
        assert_eq!(candidates(Some(NAMES[0].0.into()), &[]), [by_name]);
        let relative = PathBuf::from("cuda");
        let refused = Err(attempt(&relative, RELATIVE));
        assert_eq!(candidates(None, &[relative]).last(), Some(&refused));
    }

    #[test]
    fn newest_name_first_and_toolkits_after_the_names() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let library = folder.join("cuda-12.9/lib64").join(NAMES[1].0);
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        std::fs::create_dir_all(folder.join("cuda-12.10")).unwrap();
        std::fs::write(&library, "").unwrap();
        let toolkits = installed_toolkits(folder);
        assert_eq!(
            toolkits,
            ["cuda", "cuda-12.10", "cuda-12.9"].map(|name| folder.join(name))
        );
        let mut expected: Vec<_> = NAMES
            .iter()
            .map(|(name, _)| Ok(PathBuf::from(name)))
            .collect();
        expected.push(Err(attempt(
            &folder.join("cuda"),
            "no CUDA runtime library in it",
        )));
        expected.push(Err(attempt(
            &folder.join("cuda-12.10"),
            "no CUDA runtime library in it",
        )));
        expected.push(Ok(library));
        assert_eq!(candidates(None, &toolkits), expected);
    }

    #[test]
    fn the_name_tells_the_major_version() {
        for (name, major) in [
            ("/x/libcudart.so.13", Some(13)),
            ("libcudart.so.11.0", Some(11)),
            ("libcudart.so.12.9.79", Some(12)),
            ("cudart64_110.dll", Some(11)),
            ("cudart64_13.dll", Some(13)),
            ("libcudart.so", None),
        ] {
            assert_eq!(soname_major(Path::new(name)), major, "{name}");
        }
    }

    #[test]
    fn what_was_tried_is_told() {
        // SAFETY: there is no such library, so none is loaded.
        let error = unsafe { load_from("/nowhere/libcudart.so.13") }
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nowhere/libcudart.so.13"), "{error}");
    }
}
