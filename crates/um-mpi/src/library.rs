//! Finds and opens the MPI library.
//!
//! `CUDA_UM_MPI` selects code that is loaded into this process: it is trusted input.
#![allow(unsafe_code, reason = "opens a library and calls MPI")]

use crate::MpiError;
use crate::abi::{ABI_MAJOR, Functions};
use crate::state::text;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};
use std::error::Error;
use std::ffi::{OsString, c_char, c_int};

/// Names the library (a path, or a name for the system's loader); if it is set, nothing else is tried.
const VARIABLE: &str = "CUDA_UM_MPI";

#[cfg(target_os = "macos")]
const NAMES: [&str; 3] = [
    "libmpi_abi.1.dylib",
    "libmpi_abi.0.dylib",
    "libmpi_abi.dylib",
];
#[cfg(not(target_os = "macos"))]
const NAMES: [&str; 3] = ["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];

/// Libraries without the ABI, under the names of Open MPI 4 and 5, MPICH, and Debian's MPICH: only to report what is there.
const WITHOUT_ABI: [&str; 4] = [
    "libmpi.so.40",
    "libmpi.so.12",
    "libmpich.so.12",
    "libmpi.so",
];

/// Opens the MPI library of this machine, which stays open. Returns its functions, and the name or path that was opened.
pub(crate) fn open() -> Result<(Functions, String), MpiError> {
    let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
    let is_named = named.is_some();
    let names = named.map_or_else(|| NAMES.map(OsString::from).into(), |named| vec![named]);
    let mut tried = Vec::new();
    for name in names {
        let path = name.to_string_lossy().into_owned();
        // Plugins of Open MPI look for its symbols in the global scope (https://github.com/open-mpi/ompi/issues/3705).
        // SAFETY: the documented name of an MPI library, or a path that a trusted variable names.
        match unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => {
                let functions = functions(&library, &path);
                // MPI libraries have threads and exit handlers, so they are never closed.
                std::mem::forget(library);
                return Ok((functions?, path));
            }
            Err(error) => {
                let reason = error.source().map(ToString::to_string);
                let reason = reason.unwrap_or_else(|| error.to_string());
                tried.push(format!("{path}: {reason}"));
            }
        }
    }
    for name in WITHOUT_ABI.iter().filter(|_| !is_named) {
        // SAFETY: the documented name of an MPI library, whose initialisers may run in any process. Its symbols stay local.
        if let Ok(library) = unsafe { Library::open(Some(*name), RTLD_LAZY | RTLD_LOCAL) } {
            return Err(without_abi(&library, name, "it was built for its own ABI"));
        }
    }
    Err(MpiError::NotFound { tried })
}

fn functions(library: &Library, path: &str) -> Result<Functions, MpiError> {
    type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor): (c_int, c_int) = (-1, -1);
    // SAFETY: the standard's signature of a function that may be called before MPI is initialised.
    if let Ok(abi_version) = unsafe { library.get::<GetVersion>("MPI_Abi_get_version") } {
        // SAFETY: as above; both pointers are valid.
        unsafe { abi_version(&mut major, &mut minor) };
    }
    let reason = match major {
        // SAFETY: the library says that it has this ABI; the caller keeps it open.
        ABI_MAJOR => match unsafe { Functions::load(library) } {
            Ok(functions) => return Ok(functions),
            Err(name) => format!("it lacks {name}, so the installation is incomplete"),
        },
        // A library that has MPI 5 but was built for its own ABI reports −1.
        -1 => "it was built for its own ABI".to_owned(),
        _ => format!("it has version {major}.{minor} of the ABI, and version 1 is supported"),
    };
    Err(without_abi(library, path, &reason))
}

/// The error for a library that cannot be used, with the first line of what it says about itself.
fn without_abi(library: &Library, path: &str, reason: &str) -> MpiError {
    type GetText = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: the standard's signature, in every ABI, of a function that may be called before MPI is initialised.
    let get = unsafe { library.get::<GetText>("MPI_Get_library_version") };
    // SAFETY: as above; the text has the room that the standard asks for.
    let line = get.map(|get| text(|text, len| _ = unsafe { get(text, len) }));
    let line = line.unwrap_or_else(|_| "it does not report a version".to_owned());
    // "MPICH Version:      5.0.2", "Open MPI v4.1.4, package: Debian …"
    let words = line.split(", ").next().unwrap_or_default();
    MpiError::WithoutAbi {
        library: path.to_owned(),
        version: words.split_whitespace().collect::<Vec<_>>().join(" "),
        reason: reason.to_owned(),
    }
}
