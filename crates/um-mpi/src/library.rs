//! Finds and opens the MPI library.
//!
//! `CUDA_UM_MPI` selects code that is loaded into this process: it is trusted input.
#![allow(unsafe_code, reason = "opens a library and calls MPI")]

use crate::MpiError;
use crate::abi::{ABI_MAJOR, Functions};
use crate::state::text;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{OsStr, OsString, c_char, c_int};

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

/// The functions of an MPI library with the ABI, and the name or path that was opened.
type Opened = (Functions, String);

/// Opens the MPI library of this machine; it stays open.
pub(crate) fn open() -> Result<Opened, MpiError> {
    open_one_of(std::env::var_os(VARIABLE), &NAMES, &WITHOUT_ABI)
}

fn open_one_of(
    named: Option<OsString>,
    names: &[&str],
    without_abi: &[&str],
) -> Result<Opened, MpiError> {
    let named = named.filter(|named| !named.is_empty());
    let (names, without_abi) = match &named {
        Some(named) => (vec![named.as_os_str()], &[][..]),
        None => (names.iter().map(OsStr::new).collect(), without_abi),
    };
    let mut tried = Vec::new();
    for name in names {
        match open_at(name) {
            Ok(found) => return found,
            Err(reason) => tried.push(reason),
        }
    }
    for name in without_abi {
        // SAFETY: the documented name of an MPI library, whose initialisers may run in any process. Its symbols stay local.
        if let Ok(library) = unsafe { Library::open(Some(*name), RTLD_LAZY | RTLD_LOCAL) } {
            return Err(without_abi_of(&library, name));
        }
    }
    Err(MpiError::NotFound { tried })
}

/// Opens a library. The error has the loader's message; that within the result is for a library without the ABI.
fn open_at(name: &OsStr) -> Result<Result<Opened, MpiError>, String> {
    let path = name.to_string_lossy().into_owned();
    // Plugins of Open MPI look for its symbols in the global scope (https://github.com/open-mpi/ompi/issues/3705).
    // SAFETY: the documented name of an MPI library, or a path that a trusted variable names.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
    let library = library.map_err(|error| {
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        format!("{path}: {}", reason.unwrap_or_else(|| error.to_string()))
    })?;
    let functions = functions(&library, &path);
    // MPI libraries have threads and exit handlers, so they are never closed.
    std::mem::forget(library);
    Ok(functions.map(|functions| (functions, path)))
}

fn functions(library: &Library, path: &str) -> Result<Functions, MpiError> {
    type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let (mut major, mut minor): (c_int, c_int) = (-1, -1);
    // SAFETY: the standard's signature of a function that may be called before MPI is initialised.
    if let Ok(abi_version) = unsafe { library.get::<GetVersion>("MPI_Abi_get_version") } {
        // SAFETY: as above; both pointers are valid.
        unsafe { abi_version(&mut major, &mut minor) };
    }
    match major {
        ABI_MAJOR => {
            // SAFETY: the library says that it has this ABI; the caller keeps it open.
            unsafe { Functions::load(library, path) }
        }
        // A library that has MPI 5 but was built for its own ABI reports −1.
        -1 => Err(without_abi_of(library, path)),
        major => Err(MpiError::AbiVersion {
            library: path.to_owned(),
            major,
            minor,
        }),
    }
}

/// The error for a library without the ABI, with the first line of what it says about itself.
fn without_abi_of(library: &Library, path: &str) -> MpiError {
    type GetText = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: the standard's signature, in every ABI, of a function that may be called before MPI is initialised.
    let get = unsafe { library.get::<GetText>("MPI_Get_library_version") };
    // SAFETY: as above; the text has the room that the standard asks for.
    let line = get.map(|get| text(|text, len| _ = unsafe { get(text, len) }));
    let line = line.unwrap_or_default();
    // "MPICH Version:      5.0.2", "Open MPI v4.1.4, package: Debian …"
    let line = line.split(", ").next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let version = match words.is_empty() {
        true => "it does not report a version".to_owned(),
        false => words.join(" "),
    };
    let library = path.to_owned();
    MpiError::WithoutAbi { library, version }
}

#[cfg(test)]
mod tests;
