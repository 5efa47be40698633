//! Publishing: what must be true before, the call of cargo, and the tag.

use super::files;
use super::packages::{Published, selected};
use crate::{wheels, workspace};
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Checks that a release of this tree is possible: no changes, one version, its section of CHANGELOG, no other tag.
pub fn ready(published: &[Published]) -> Result<()> {
    let changes = git(&["status", "--porcelain"])?;
    ensure!(
        changes.is_empty(),
        "the tree has changes; commit them, or use --dry-run:\n{changes}"
    );
    let version = version(published)?;
    let changelog = std::fs::read_to_string(workspace::root().join("CHANGELOG.md"))?;
    section(&changelog, version)?;
    let tag = format!("v{version}");
    if !git(&["tag", "--list", &tag])?.is_empty() {
        let (tagged, head) = (
            git(&["rev-parse", &format!("{tag}^{{commit}}")])?,
            git(&["rev-parse", "HEAD"])?,
        );
        ensure!(
            tagged == head,
            "the tag {tag} is another commit: raise the version"
        );
    }
    Ok(())
}

/// The version that all crates have.
fn version(published: &[Published]) -> Result<&str> {
    let first = published.first().context("no crate is published")?;
    for one in published {
        ensure!(
            one.version == first.version,
            "{} is {}, but {} is {}: all crates are released with one version",
            one.name,
            one.version,
            first.name,
            first.version
        );
    }
    Ok(&first.version)
}

/// The section of a version, which has a date and a text; nothing is left in the section of unreleased changes.
fn section<'a>(changelog: &'a str, version: &str) -> Result<&'a str> {
    let heads = |name: &str| {
        let start = format!("## [{name}]");
        changelog
            .split("\n## ")
            .find(|part| part.starts_with(&start[3..]))
    };
    if let Some(unreleased) = heads("Unreleased") {
        ensure!(
            unreleased.lines().skip(1).all(str::is_empty),
            "CHANGELOG.md has unreleased changes: move them to the section of {version}"
        );
    }
    let section = heads(version)
        .with_context(|| format!("CHANGELOG.md has no section `## [{version}] - DATE`"))?;
    let (head, text) = section.split_once('\n').unwrap_or((section, ""));
    let date = head.split_once(" - ").map_or("", |(_, date)| date);
    ensure!(
        date.len() == 10
            && date
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'-'),
        "the section of {version} in CHANGELOG.md has no date: write `## [{version}] - YYYY-MM-DD`"
    );
    ensure!(
        !text.trim().is_empty(),
        "the section of {version} in CHANGELOG.md is empty"
    );
    Ok(text)
}

/// Publishes the wheels, and the crates in their order, and tags the commit.
///
/// Wheels that PyPI has already are left out. cargo waits until the registry has a crate before it publishes those that use it. The tokens are
/// `UV_PUBLISH_TOKEN`, or the identity of a workflow that PyPI trusts, and that of `cargo login` or `CARGO_REGISTRY_TOKEN`.
pub fn publish(published: &[Published]) -> Result<()> {
    let mut uv = Command::new(wheels::install(&["uv==0.13.8"])?.join("bin/uv"));
    uv.current_dir(files::folder());
    uv.args(["publish", "--check-url", "https://pypi.org/simple/"]);
    workspace::run(uv.arg("*.whl"))?;
    let mut cargo = workspace::cargo();
    // The packages were built and tested above.
    cargo.args(["publish", "--no-verify", "--locked"]);
    workspace::run(cargo.args(selected(published)))?;
    let tag = format!("v{}", version(published)?);
    if git(&["tag", "--list", &tag])?.is_empty() {
        git(&["tag", "--annotate", &tag, "--message", &tag])?;
        println!("next: git push origin {tag}");
    }
    Ok(())
}

/// The output of a command of git.
fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .current_dir(workspace::root())
        .args(args)
        .output()
        .context("cannot start git")?;
    ensure!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::section;

    #[test]
    fn a_release_needs_a_dated_section_and_nothing_unreleased() {
        let good = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-27\n\nThe first.\n";
        assert_eq!(section(good, "0.1.0").unwrap().trim(), "The first.");
        for (bad, told) in [
            (good.replace("[0.1.0]", "[0.2.0]"), "no section"),
            (good.replace(" - 2026-11-27", ""), "no date"),
            (good.replace("The first.", ""), "is empty"),
            (
                good.replace("\n\n## [0.1.0]", "\n\n- A change.\n\n## [0.1.0]"),
                "unreleased changes",
            ),
        ] {
            let error = section(&bad, "0.1.0").unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
