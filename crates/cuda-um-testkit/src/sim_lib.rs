//! The folder with the simulator's libraries under the names of CUDA's. `cargo xtask sim-lib` uses this file, too.

use std::io::{Error, Result};
use std::path::Path;
use std::process::Command;

/// The simulator itself, under the name of the driver.
pub const DRIVER: &str = "libcuda.so.1";

/// Libraries without functions of their own, which depend on [`DRIVER`]: a search for a symbol in them finds its functions.
pub const OTHERS: [&str; 5] = [
    "libcudart.so.12",
    "libcudart.so.13",
    "libcupti.so.12",
    "libcupti.so.13",
    "libnvidia-ml.so.1",
];

/// Other names, for programs that search them first.
const LINKS: [(&str, &str); 2] = [("libcuda.so", DRIVER), ("libcudart.so", OTHERS[1])];

/// Adds the other libraries to a folder that has [`DRIVER`]. Several processes may do this at the same time.
pub fn complete(folder: &Path) -> Result<()> {
    for name in OTHERS {
        put(folder, name, |unfinished| {
            let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
            compiler
                .args(["-shared", "-nostdlib", "-o"])
                .arg(unfinished);
            compiler.args([format!("-Wl,-soname,{name}"), "-Wl,--no-as-needed".into()]);
            // At run time the driver is in the same folder.
            compiler.args(["-Wl,-rpath,$ORIGIN", "-L"]).arg(folder);
            compiler.args([
                format!("-l:{DRIVER}"),
                "-x".into(),
                "c".into(),
                "/dev/null".into(),
            ]);
            let status = compiler.status()?;
            match status.success() {
                true => Ok(()),
                false => Err(Error::other(format!("{compiler:?} ended with {status}"))),
            }
        })?;
    }
    for (link, to) in LINKS {
        put(folder, link, |unfinished| {
            std::os::unix::fs::symlink(to, unfinished)
        })?;
    }
    Ok(())
}

/// Makes a file under another name, and then renames it, so that no process sees a part of it.
pub fn put(folder: &Path, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let unfinished = folder.join(format!(".{name}.{}", std::process::id()));
    make(&unfinished)?;
    std::fs::rename(unfinished, folder.join(name))
}
