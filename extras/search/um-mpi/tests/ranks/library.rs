//! Libraries that cannot be used: the error names them, and tells what to install. No launcher is needed.

use crate::Case;
use crate::launch::Launcher;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const CASES: &[Case] = &[("library", |_| (), libraries_are_told)];

/// A library of C with the functions that MPI's loader asks for.
fn library(folder: &Path, name: &str, abi: Option<(i32, i32)>, version: &str) -> PathBuf {
    let abi = abi.map_or(String::new(), |(major, minor)| {
        format!(
            "int MPI_Abi_get_version(int *a, int *b) {{ *a = {major}; *b = {minor}; return 0; }}"
        )
    });
    let text = format!(
        "#include <string.h>\n{abi}\nint MPI_Get_library_version(char *text, int *len) \
         {{ strcpy(text, \"{version}\"); *len = strlen(text); return 0; }}"
    );
    let (source, library) = (folder.join("mpi.c"), folder.join(name));
    std::fs::write(&source, text).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-o"]);
    assert!(
        command
            .args([&library, &source])
            .status()
            .unwrap()
            .success()
    );
    library
}

fn libraries_are_told(launcher: &Launcher) {
    let fails = |path: &str, told: &str| {
        let outcome = launcher.variable("CUDA_UM_MPI", path).run_alone();
        assert!(!outcome.success);
        outcome.says(&format!("found (tried {path}"));
        outcome.says(told);
        outcome.says("MPICH from 5.0, in Open MPI from 6.0 and in Intel MPI from 2021.18");
        outcome.says("(`pip install mpich` needs no administrator)");
    };
    fails("/nowhere/libmpi_abi.so", "cannot open shared object file");
    fails("lib/libmpi_abi.so", "a relative path is refused");
    let folder = tempfile::tempdir().unwrap();
    let refused = |name, abi, version, told| {
        let library = library(folder.path(), name, abi, version);
        fails(library.to_str().unwrap(), told)
    };
    let open_mpi = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
    // MPICH 5 has two libraries: the one for its own ABI reports −1.
    let mpich = "MPICH Version:      5.0.2\\nMPICH Release date: 2026";
    refused("old", None, open_mpi, "(Open MPI v4.1.4): it was built");
    refused(
        "own",
        Some((-1, -1)),
        mpich,
        "(MPICH Version: 5.0.2): it was",
    );
    refused(
        "new",
        Some((2, 3)),
        "MPI 7",
        "it has version 2.3 of the ABI",
    );
    refused("part", Some((1, 1)), "half", "it lacks MPI_Initialized, so");
    // Without the variable, if no library has the ABI's name.
    library(folder.path(), "libmpi.so.40", None, open_mpi);
    let launcher = launcher.variable("CUDA_UM_MPI", "");
    let launcher = launcher.variable("LD_LIBRARY_PATH", folder.path().to_str().unwrap());
    let outcome = launcher.run_alone();
    // The system may have one.
    if !outcome.success {
        outcome.says("libmpi.so.40 (Open MPI v4.1.4): it was built");
    }
}
