//! Files of NVIDIA (and of clang) without a toolkit: pinned wheels, unpacked once below the target folder.

use crate::workspace;
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

/// Unpacks exactly these wheels (`name==version`, no dependencies) and returns their folder, with the layout of
/// `site-packages`. A second call with the same list costs nothing.
///
/// Wheels that contain the same paths (for example the runtimes of CUDA 11 and 12) need separate calls.
pub fn install(requirements: &[&str]) -> Result<PathBuf> {
    install_for(&[], requirements)
}

/// [`install`] with options that choose the machine of the wheels: `["--platform", "manylinux2014_aarch64"]`; none for this one.
pub fn install_for(platform: &[&str], requirements: &[&str]) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (requirements, platform).hash(&mut hasher);
    let name = requirements[0].replace("==", "-");
    let folder = workspace::target()
        .join("wheels")
        .join(format!("{name}-{:08x}", hasher.finish() as u32));
    if folder.is_dir() {
        return Ok(folder);
    }
    // The wheels are unpacked into another folder that is renamed at the end, so that an interrupted run leaves no incomplete
    // folder.
    let partial = folder.with_extension(format!("partial-{}", std::process::id()));
    std::fs::create_dir_all(&partial)?;
    eprintln!(
        "installing {} into {}",
        requirements.join(" "),
        folder.display()
    );
    let mut pip = Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
    ])
    .args([
        "--no-compile",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
        "--target",
    ])
    .arg(&partial)
    .args(platform)
    .args(requirements);
    workspace::run(&mut pip).context(
        "pinned wheels are installed with `python3 -m pip` (set PYTHON to use another interpreter)",
    )?;
    match std::fs::rename(&partial, &folder) {
        Err(_) if folder.is_dir() => std::fs::remove_dir_all(&partial)?,
        renamed => renamed?,
    }
    Ok(folder)
}
