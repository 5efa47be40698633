//! Finds and opens the MPI library.
//!
//! `CUDA_UM_MPI` selects code that is loaded into this process: it is trusted input.
#![allow(unsafe_code, reason = "opens a library and calls MPI")]

use crate::MpiError;
use crate::abi::{
    ABI_MAJOR, AbiGetVersion, Functions, GetLibraryVersion, MAX_LIBRARY_VERSION_STRING,
};
use crate::state::first_line;
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

/// An MPI library with the ABI.
pub(crate) struct Opened {
    pub(crate) functions: Functions,
    /// The name or path that was opened.
    pub(crate) path: String,
}

/// Opens the MPI library of this machine; it stays open.
pub(crate) fn open() -> Result<Opened, MpiError> {
    open_one_of(std::env::var_os(VARIABLE), &NAMES, &WITHOUT_ABI)
}

fn open_one_of(
    named: Option<OsString>,
    names: &[&str],
    without_abi: &[&str],
) -> Result<Opened, MpiError> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return open_at(&named).map_err(|failure| match failure {
            Failure::NotOpened(reason) => MpiError::NotFound {
                tried: vec![reason],
            },
            Failure::Unfit(error) => error,
        });
    }
    let mut tried = Vec::new();
    for name in names {
        match open_at(OsStr::new(name)) {
            Ok(opened) => return Ok(opened),
            Err(Failure::NotOpened(reason)) => tried.push(reason),
            Err(Failure::Unfit(error)) => return Err(error),
        }
    }
    for name in without_abi {
        // SAFETY: the documented name of an MPI library, whose initialisers may run in any process. Its symbols stay local.
        if let Ok(library) = unsafe { Library::open(Some(*name), RTLD_LAZY | RTLD_LOCAL) } {
            return Err(MpiError::WithoutAbi {
                library: (*name).to_owned(),
                version: version(&library),
            });
        }
    }
    Err(MpiError::NotFound { tried })
}

enum Failure {
    /// With the loader's message.
    NotOpened(String),
    /// The library is not one with the ABI.
    Unfit(MpiError),
}

fn open_at(name: &OsStr) -> Result<Opened, Failure> {
    let path = name.to_string_lossy().into_owned();
    // Plugins of Open MPI look for its symbols in the global scope (https://github.com/open-mpi/ompi/issues/3705).
    // SAFETY: the documented name of an MPI library, or a path that a trusted variable names.
    let library =
        unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }.map_err(|error| {
            let reason = std::error::Error::source(&error).map(ToString::to_string);
            Failure::NotOpened(format!(
                "{path}: {}",
                reason.unwrap_or_else(|| error.to_string())
            ))
        })?;
    let functions = functions(&library, &path).map_err(Failure::Unfit)?;
    // MPI libraries have threads and exit handlers, so they are never closed.
    std::mem::forget(library);
    Ok(Opened { functions, path })
}

fn functions(library: &Library, path: &str) -> Result<Functions, MpiError> {
    let (mut major, mut minor): (c_int, c_int) = (-1, -1);
    // SAFETY: the standard's signature of a function that may be called before MPI is initialised.
    if let Ok(abi_version) = unsafe { library.get::<AbiGetVersion>("MPI_Abi_get_version") } {
        // SAFETY: as above; both pointers are valid.
        unsafe { abi_version(&mut major, &mut minor) };
    }
    match major {
        ABI_MAJOR => {
            // SAFETY: the library says that it has this ABI; the caller keeps it open.
            unsafe { Functions::load(library, path) }
        }
        // A library that has MPI 5 but was built for its own ABI reports −1.
        -1 => Err(MpiError::WithoutAbi {
            library: path.to_owned(),
            version: version(library),
        }),
        major => Err(MpiError::AbiVersion {
            library: path.to_owned(),
            major,
            minor,
        }),
    }
}

/// The first line of what the library says about itself.
fn version(library: &Library) -> String {
    let unknown = || "it does not report a version".to_owned();
    // SAFETY: the standard's signature, in every ABI, of a function that may be called before MPI is initialised.
    let Ok(get) = (unsafe { library.get::<GetLibraryVersion>("MPI_Get_library_version") }) else {
        return unknown();
    };
    let mut text = [0_u8; MAX_LIBRARY_VERSION_STRING + 1];
    let mut len = 0;
    // SAFETY: the text has the room that the standard asks for.
    unsafe { get(text.as_mut_ptr().cast::<c_char>(), &mut len) };
    let line = first_line(&text);
    // "MPICH Version:      5.0.2", "Open MPI v4.1.4, package: Debian …"
    let line = line.split(", ").next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.is_empty() {
        true => unknown(),
        false => words.join(" "),
    }
}

#[cfg(test)]
mod tests;
