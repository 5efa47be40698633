//! Where a library that is opened on demand (CUPTI, NVRTC) may be, and how a file is opened.

use crate::Attempt;
use crate::loader::reason;
use crate::variable::{RELATIVE, depends_on_folder};
use libloading::Library;
use std::ffi::{CStr, OsString, c_void};
use std::path::{Path, PathBuf};

/// The paths of a library: `named` alone, or else the name for the system's loader, and the files of this name in these folders of the toolkits.
/// A name with `*` is that of files only. An error for a relative path.
pub(crate) fn candidates(
    named: Option<OsString>,
    name: &str,
    folders: &[&str],
    toolkits: &[PathBuf],
) -> Vec<Result<PathBuf, Attempt>> {
    let checked = |path: PathBuf| match depends_on_folder(&path) {
        false => Ok(path),
        true => Err(Attempt {
            library: path.display().to_string(),
            reason: RELATIVE.to_owned(),
        }),
    };
    if let Some(named) = named {
        return vec![checked(named.into())];
    }
    let folders = toolkits
        .iter()
        .flat_map(|toolkit| folders.iter().map(|folder| toolkit.join(folder)));
    let by_name = Some(PathBuf::from(name)).filter(|_| !name.contains('*'));
    by_name
        .into_iter()
        .chain(folders.flat_map(|folder| files(&folder, name)))
        .map(checked)
        .collect()
}

/// The file of this name in a folder, or those that match it, in descending order.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Some((begin, end)) = name.split_once('*') else {
        return Vec::from_iter(Some(folder.join(name)).filter(|path| path.is_file()));
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.retain(|name| {
        let name = name.to_string_lossy();
        name.starts_with(begin) && name.ends_with(end)
    });
    names.sort_unstable_by(|a, b| b.cmp(a));
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// Opens a library, which is never unloaded: it has threads and callbacks. Returns what finds its symbols; null for one that is
/// absent.
///
/// # Safety
/// The initialisers of the library, which run now, are sound to run in this process.
pub(crate) unsafe fn open_at(
    path: &Path,
) -> Result<impl FnMut(&CStr) -> *const c_void + use<>, Attempt> {
    // SAFETY: required of the caller.
    let library = unsafe { Library::new(path) }.map_err(|error| Attempt {
        library: path.display().to_string(),
        reason: reason(&error),
    })?;
    let library = std::mem::ManuallyDrop::new(library);
    Ok(move |name: &CStr| {
        // SAFETY: the address is not used here; the table gives it its type.
        let found = unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) };
        found.map_or(std::ptr::null(), |symbol| *symbol)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_candidate_and_the_current_folder_names_none() {
        let named = |name: &str| candidates(Some(name.into()), "lib.so.2", &[], &[]);
        assert_eq!(named("/x/lib.so"), [Ok(PathBuf::from("/x/lib.so"))]);
        assert_eq!(named("lib.so"), [Ok(PathBuf::from("lib.so"))]);
        let refused = named("./lib.so").remove(0).unwrap_err();
        assert!(refused.reason.contains("relative"), "{refused:?}");
    }

    #[test]
    fn a_folder_has_the_releases_for_windows() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        for name in [
            "cupti64_2022.3.0.dll",
            "cupti64_2025.3.1.dll",
            "cupti.lib",
            "nvperf_host.dll",
        ] {
            std::fs::write(folder.join("bin").join(name), "").unwrap();
        }
        let newest_first = ["cupti64_2025.3.1.dll", "cupti64_2022.3.0.dll"];
        let newest_first = newest_first.map(|name| Ok(folder.join("bin").join(name)));
        let toolkits = [folder.to_owned()];
        let found = |name| candidates(None, name, &["lib64", "bin"], &toolkits);
        assert_eq!(found("cupti64_*.dll"), newest_first);
        let by_name = PathBuf::from("cupti.lib");
        let file = folder.join("bin/cupti.lib");
        assert_eq!(found("cupti.lib"), [Ok(by_name), Ok(file)]);
    }

    #[test]
    fn what_was_tried_is_told() {
        // SAFETY: there is no such library, so none is loaded.
        let attempt = unsafe { open_at(Path::new("/nowhere/libcupti.so.13")) }
            .err()
            .unwrap();
        assert!(attempt.reason.contains("No such file"), "{attempt:?}");
        let attempts = vec![attempt];
        let text = crate::CuptiError::NotFound { attempts }.to_string();
        assert!(text.contains("CUDA_UM_CUPTI"), "{text}");
        assert!(text.contains("/nowhere/libcupti.so.13: "), "{text}");
    }
}
