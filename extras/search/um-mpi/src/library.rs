//! Finds and opens the MPI library.
//!
//! `CUDA_UM_MPI` selects code that is loaded into this process: it is trusted input.
#![allow(unsafe_code, reason = "opens a library and calls MPI")]

use crate::MpiError;
use crate::abi::{ABI_MAJOR, Functions};
use crate::state::text;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use std::error::Error;
use std::ffi::{OsString, c_char, c_int};
use std::path::Path;

/// Names the library (an absolute path, or a name for the system's loader); if it is set, nothing else is tried.
const VARIABLE: &str = "CUDA_UM_MPI";

/// The reason why a path of the variable is not used.
const RELATIVE: &str =
    "a relative path is refused, because it depends on the current folder: name an absolute path";

#[cfg(target_os = "macos")]
const NAMES: [&str; 3] = [
    "libmpi_abi.1.dylib",
    "libmpi_abi.0.dylib",
    "libmpi_abi.dylib",
];
#[cfg(not(target_os = "macos"))]
const NAMES: [&str; 3] = ["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];

/// Libraries without the ABI, under the names of Open MPI 4 and 5, MPICH, and Debian's MPICH: to report what is there. Their symbols stay local.
const WITHOUT_ABI: [&str; 4] = [
    "libmpi.so.40",
    "libmpi.so.12",
    "libmpich.so.12",
    "libmpi.so",
];

/// Opens the MPI library of this machine, which stays open. Returns its functions, and the name or path that was opened.
pub(crate) fn open() -> Result<(Functions, String), MpiError> {
    let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
    let known = NAMES.iter().chain(&WITHOUT_ABI).map(OsString::from);
    let names = named.map_or_else(|| known.collect(), |named| vec![named]);
    let mut tried = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let path = name.to_string_lossy().into_owned();
        let parts = Path::new(&name).components().count();
        if Path::new(&name).is_relative() && parts > 1 {
            tried.push(format!("{path}: {RELATIVE}"));
            continue;
        }
        // Plugins of Open MPI look for its symbols in the global scope (https://github.com/open-mpi/ompi/issues/3705).
        let has_abi = number < NAMES.len();
        let scope = [RTLD_LOCAL, RTLD_GLOBAL][usize::from(has_abi)];
        // SAFETY: the documented name of an MPI library, or a path that a trusted variable names.
        match unsafe { Library::open(Some(&name), RTLD_NOW | scope) } {
            Ok(library) => match functions(&library) {
                Ok(functions) => {
                    // MPI libraries have threads and exit handlers, so they are never closed.
                    std::mem::forget(library);
                    return Ok((functions, path));
                }
                Err(reason) => tried.push(format!("{path} ({}): {reason}", version(&library))),
            },
            // Only those with the ABI need to be there.
            Err(error) if has_abi => {
                let reason = error.source().map(ToString::to_string);
                let reason = reason.unwrap_or_else(|| error.to_string());
                tried.push(format!("{path}: {reason}"));
            }
            Err(_) => {}
        }
    }
    Err(MpiError::NotFound { tried })
}

/// The functions of a library with the ABI, or the reason why it cannot be used.
fn functions(library: &Library) -> Result<Functions, String> {
    type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor): (c_int, c_int) = (-1, -1);
    // SAFETY: the standard's signature of a function that may be called before MPI is initialised.
    if let Ok(abi_version) = unsafe { library.get::<GetVersion>("MPI_Abi_get_version") } {
        // SAFETY: as above; both pointers are valid.
        unsafe { abi_version(&mut major, &mut minor) };
    }
    match major {
        // SAFETY: the library says that it has this ABI; the caller keeps it open.
        ABI_MAJOR => unsafe { Functions::load(library) }
            .map_err(|name| format!("it lacks {name}, so the installation is incomplete")),
        // A library that has MPI 5 but was built for its own ABI reports −1.
        -1 => Err("it was built for its own ABI".to_owned()),
        _ => Err(format!(
            "it has version {major}.{minor} of the ABI; version 1 is supported"
        )),
    }
}

/// What a library says about itself: "MPICH Version:      5.0.2" and more lines, "Open MPI v4.1.4, package: Debian …".
fn version(library: &Library) -> String {
    type GetText = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: the standard's signature, in every ABI, of a function that may be called before MPI is initialised.
    let Ok(get) = (unsafe { library.get::<GetText>("MPI_Get_library_version") }) else {
        return "it does not report a version".to_owned();
    };
    // SAFETY: as above; the text has the room that the standard asks for.
    let line = text(|text, len| _ = unsafe { get(text, len) });
    let words = line.split(", ").next().unwrap_or_default();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
