use super::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that MPI's loader meets: its ABI's version, if it has `MPI_Abi_get_version`, and what it says about itself.
fn library(name: &str, abi: Option<(i32, i32)>, version: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("um-mpi-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let abi = abi.map_or(String::new(), |(major, minor)| {
        format!(
            "int MPI_Abi_get_version(int *a, int *b) {{ *a = {major}; *b = {minor}; return 0; }}"
        )
    });
    let source = folder.join("mpi.c");
    let text = format!(
        "#include <string.h>\n{abi}\nint MPI_Get_library_version(char *text, int *len) \
         {{ strcpy(text, \"{version}\"); *len = strlen(text); return 0; }}"
    );
    std::fs::write(&source, text).unwrap();
    let library = folder.join(format!("lib{name}.so"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    assert!(status.unwrap().success());
    library
}

fn error(named: &Path) -> MpiError {
    open_one_of(Some(named.into()), &[], &[]).err().unwrap()
}

fn tells_what_to_install(error: &MpiError) {
    let text = error.to_string();
    for part in [
        "MPICH from 5.0",
        "Open MPI from 6.0",
        "Intel MPI from 2021.18",
        "pip install mpich",
        "CUDA_UM_MPI",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn without_a_library_all_attempts_are_told() {
    let names = ["libmpi_abi.so.7000", "libmpi_abi.so.7001"];
    let error = open_one_of(None, &names, &[]).err().unwrap();
    tells_what_to_install(&error);
    let MpiError::NotFound { tried } = error else {
        panic!("{error}");
    };
    for (name, told) in names.iter().zip(&tried) {
        assert!(told.starts_with(name), "{told}");
    }
    // An empty variable counts as not set.
    let empty = open_one_of(Some("".into()), &names, &[]).err().unwrap();
    assert_eq!(empty, MpiError::NotFound { tried });
}

#[test]
fn a_named_library_is_the_only_one_that_is_tried() {
    let error = open_one_of(Some("/nowhere/libmpi_abi.so".into()), &["libc.so.6"], &[]);
    let error = error.err().unwrap();
    assert!(
        matches!(&error, MpiError::NotFound { tried } if tried.len() == 1 && tried[0].contains("/nowhere/")),
        "{error}"
    );
}

#[test]
fn a_library_without_the_abi_is_named_with_its_version() {
    let version = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
    let old = library("old", None, version);
    // MPICH 5 has two libraries: the one for its own ABI reports −1.
    let own_abi = library(
        "own",
        Some((-1, -1)),
        "MPICH Version:      5.0.2\\nMPICH Release date: 2026",
    );
    for (path, version) in [
        (&old, "Open MPI v4.1.4"),
        (&own_abi, "MPICH Version: 5.0.2"),
    ] {
        let error = error(path);
        tells_what_to_install(&error);
        let library = path.display().to_string();
        let version = version.to_owned();
        assert_eq!(error, MpiError::WithoutAbi { library, version });
    }
    // The same without the variable, if no library has the ABI's name.
    let path = old.to_str().unwrap();
    let found = open_one_of(None, &["libmpi_abi.so.7000"], &["libmpi.so.7000", path]);
    assert!(matches!(found.err(), Some(MpiError::WithoutAbi { library, .. }) if library == path));
}

#[test]
fn another_version_of_the_abi_is_refused() {
    let path = library("later", Some((2, 3)), "MPI of the future");
    let library = path.display().to_string();
    let (major, minor) = (2, 3);
    let expected = MpiError::AbiVersion {
        library,
        major,
        minor,
    };
    assert_eq!(error(&path), expected);
}

#[test]
fn a_missing_function_is_named() {
    let path = library("partial", Some((1, 1)), "half of MPI");
    let library = path.display().to_string();
    let function = "MPI_Initialized";
    assert_eq!(
        error(&path),
        MpiError::MissingFunction { library, function }
    );
}
