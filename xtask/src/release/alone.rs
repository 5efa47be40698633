//! The packages in an empty folder outside of the repository: each is built and tested there against the others.

use super::packages::{Packed, Published};
use crate::{nightly, workspace};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The member that is a user's first program.
const FIRST_USE: &str = "first-use";

/// The unpacked packages, as the members of a workspace whose `[patch]` stands for the registry.
pub struct Alone<'a> {
    folder: PathBuf,
    published: Vec<&'a Published>,
}

impl<'a> Alone<'a> {
    /// Unpacks the packages, and writes the program of README beside them.
    pub fn unpack(packed: &[Packed<'a>]) -> Result<Self> {
        let folder = std::env::temp_dir().join("cuda-um-packages");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let mut members = format!("{FIRST_USE:?}");
        let mut patch = String::new();
        for one in packed {
            let name = &one.of.name;
            let into = folder.join(name);
            fs::create_dir_all(&into)?;
            let mut tar = Command::new("tar");
            tar.args(["--strip-components=1", "-xzf"]).arg(&one.file);
            workspace::run(tar.current_dir(&into))?;
            members += &format!(", {name:?}");
            patch += &format!("{name} = {{ path = {name:?} }}\n");
        }
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patch}\n\
             [profile.dev]\ndebug = false\n\n[profile.dev.package.um-search]\nopt-level = 3\n\n\
             [profile.dev.package.cuda-um-sim]\nopt-level = 1\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        // The versions of other crates that the repository is tested with.
        fs::copy(
            workspace::root().join("Cargo.lock"),
            folder.join("Cargo.lock"),
        )?;
        let alone = Self {
            folder,
            published: packed.iter().map(|one| one.of).collect(),
        };
        alone.write_first_use()?;
        Ok(alone)
    }

    /// The program and the dependency of README, as a crate.
    fn write_first_use(&self) -> Result<()> {
        let readme = fs::read_to_string(workspace::root().join("README.md"))?;
        let block = |language: &str| {
            let (_, rest) = readme.split_once(&format!("```{language}\n"))?;
            rest.split_once("```").map(|(block, _)| block)
        };
        let dependency = block("toml").context("README.md has no block of toml")?;
        let program = block("rust").context("README.md has no block of rust")?;
        ensure!(
            dependency.contains("\num-backend = { version"),
            "README.md does not name a version of um-backend"
        );
        let folder = self.folder.join(FIRST_USE);
        fs::create_dir_all(folder.join("src"))?;
        let package = format!("[package]\nname = {FIRST_USE:?}\nedition = \"2024\"\n\n");
        fs::write(folder.join("Cargo.toml"), package + dependency)?;
        fs::write(folder.join("src/main.rs"), program)?;
        Ok(())
    }

    /// Checks one crate with its default features.
    pub fn check(&self, name: &str) -> Result<()> {
        workspace::run(self.cargo().args(["check", "--package", name]))
    }

    /// Checks each crate with its default features, tests all with all features, and runs the program of README.
    pub fn test(&self) -> Result<()> {
        for one in &self.published {
            self.check(&one.name)?;
        }
        workspace::run(
            self.cargo()
                .args(["test", "--no-fail-fast"])
                .args(self.with_all_features()),
        )?;
        workspace::run(self.cargo().args(["run", "--package", FIRST_USE]))
    }

    /// Makes the documentation as docs.rs does: nightly, without network and with every feature.
    pub fn docs(&self) -> Result<()> {
        let mut doc = self.set_up(nightly::cargo()?);
        doc.env("RUSTDOCFLAGS", "--cfg docsrs -D warnings");
        doc.args(["doc", "--no-deps", "--offline"]);
        workspace::run(doc.args(self.with_all_features()))
    }

    fn with_all_features(&self) -> Vec<String> {
        let mut args = Vec::new();
        for one in &self.published {
            args.extend(["--package".to_owned(), one.name.clone()]);
            for feature in &one.features {
                args.extend(["--features".to_owned(), format!("{}/{feature}", one.name)]);
            }
        }
        args
    }

    fn cargo(&self) -> Command {
        self.set_up(workspace::cargo())
    }

    fn set_up(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder);
        command.env("CARGO_TARGET_DIR", workspace::target().join("packages"));
        command
    }
}
