//! `cargo xtask newest`: what a newer version of another library breaks, in a copy of the committed files.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Libraries of users with the versions that go with them, the manifest that requires them, and the command that tests our crate.
const LIBRARIES: [(&[&str], &str, &[&str]); 3] = [
    (&["cudarc"], "Cargo.toml", &["test", "-p", "um-cudarc"]),
    (
        &["candle-core", "candle-nn"],
        "integrations/um-candle/Cargo.toml",
        &["xtask", "candle"],
    ),
    (
        &["cuda-core", "cutile"],
        "integrations/um-cuda-core/Cargo.toml",
        &["xtask", "cuda-core"],
    ),
];

/// Options of `cargo xtask newest`.
#[derive(clap::Args)]
pub struct Args {
    /// Test also with a version that the lockfile has.
    #[arg(long)]
    all: bool,
}

/// Tests each crate with the newest version of its library.
pub fn run(args: &Args) -> Result<()> {
    let copy = workspace::target().join("newest");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir_all(&copy)?;
    let mut git = Command::new("git");
    git.args(["archive", "HEAD"]).current_dir(workspace::root());
    let files = git.stdout(Stdio::piped()).spawn()?.stdout;
    let files = files.context("git has an output")?;
    workspace::run(Command::new("tar").arg("-xC").arg(&copy).stdin(files))?;
    let mut failed = Vec::new();
    for (names, manifest, test) in LIBRARIES {
        let (manifest, name) = (copy.join(manifest), names[0]);
        let (used, newest) = (version(name, &manifest)?, newest(name)?);
        println!("{name}: {used} here, {newest} is the newest");
        let text = with_version(&fs::read_to_string(&manifest)?, names, &newest);
        fs::write(&manifest, text)?;
        let mut update = cargo(&copy);
        update.args(["update", "--quiet", "--manifest-path"]);
        if !update.arg(&manifest).args(names).status()?.success() {
            failed.push(format!(
                "{name} {newest} ({used} here), with which cargo finds no versions"
            ));
            continue;
        }
        if (args.all || newest != used) && !cargo(&copy).args(test).status()?.success() {
            failed.push(format!("{name} {newest} ({used} here)"));
        }
    }
    ensure!(
        failed.is_empty(),
        "the tests fail with {}: adapt our crate; a copy of the files that uses that version is in {}",
        failed.join(" and "),
        copy.display()
    );
    Ok(())
}

/// `cargo` in the copy.
fn cargo(copy: &Path) -> Command {
    let mut cargo = workspace::cargo();
    cargo
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", workspace::target());
    cargo
}

/// The manifest, with a requirement of exactly this version of these libraries.
fn with_version(manifest: &str, names: &[&str], version: &str) -> String {
    let line = |line: &str| match line.split_once(" = ") {
        Some((name, requirement)) if names.contains(&name) => {
            // The first text is the version.
            let mut parts: Vec<_> = requirement.split('"').collect();
            let exact = format!("={version}");
            parts[1] = &exact;
            format!("{name} = {}\n", parts.join("\""))
        }
        _ => format!("{line}\n"),
    };
    manifest.lines().map(line).collect()
}

/// The newest version in the registry. A requirement of any version would take an older one if the newest lacks a feature that we use.
fn newest(name: &str) -> Result<String> {
    let mut info = workspace::cargo();
    info.args(["info", "--quiet", "--registry", "crates-io", name]);
    // Outside of a workspace it is not the newest version for the Rust version of that.
    let output = info.current_dir("/").stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let version = text.lines().find_map(|line| line.strip_prefix("version: "));
    let version = version.with_context(|| format!("{info:?} prints no version: {text}"))?;
    Ok(version.split(' ').next().unwrap_or_default().to_owned())
}

/// The version in the lockfile beside a manifest.
fn version(name: &str, manifest: &Path) -> Result<String> {
    let mut cargo = workspace::cargo();
    cargo.args(["pkgid", name, "--manifest-path"]).arg(manifest);
    let output = cargo.stderr(Stdio::inherit()).output()?;
    ensure!(
        output.status.success(),
        "{cargo:?} ended with {}",
        output.status
    );
    let id = String::from_utf8(output.stdout)?;
    let version = id.trim().rsplit(['@', '#']).next();
    Ok(version.unwrap_or_default().to_owned())
}
