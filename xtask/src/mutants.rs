//! `cargo xtask mutants`: breaks the library on purpose with one patch at a time, and checks that the tests fail.

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

/// Options of `cargo xtask mutants`.
#[derive(clap::Args)]
pub struct Args {
    /// Run only mutants with this text in their names.
    #[arg(long)]
    only: Option<String>,
    /// Time limit in seconds for the tests of a mutant; a mutant that makes them hang counts as caught.
    #[arg(long, default_value_t = 300)]
    limit: u32,
    /// List the mutants, and run nothing.
    #[arg(long)]
    list: bool,
    /// Only check that every patch still applies.
    #[arg(long)]
    check: bool,
}

/// A patch of `mutants/`: comment lines, then a diff.
struct Mutant {
    name: String,
    patch: PathBuf,
    breaks: String,
    /// Arguments for cargo.
    caught_by: Vec<String>,
}

/// Runs all mutants.
pub fn run(args: &Args) -> Result<()> {
    let wanted = |mutant: &Mutant| {
        let only = args.only.as_ref();
        only.is_none_or(|only| mutant.name.contains(only.as_str()))
    };
    let mutants: Vec<Mutant> = read_all()?.into_iter().filter(wanted).collect();
    ensure!(!mutants.is_empty(), "no mutant has that name");
    if args.list {
        for mutant in &mutants {
            println!("{}: {}", mutant.name, mutant.breaks);
        }
        return Ok(());
    }

    let started = Instant::now();
    let tree = Tree::new()?;
    let stale: Vec<&str> = mutants
        .iter()
        .filter(|mutant| !tree.takes(mutant))
        .map(|mutant| mutant.name.as_str())
        .collect();
    ensure!(
        stale.is_empty(),
        "the library has changed; make these patches again: {}",
        stale.join(", ")
    );
    if args.check {
        println!("{} mutants apply", mutants.len());
        return Ok(());
    }
    check_unbroken(&tree, &mutants, args.limit)?;
    let mut survivors = Vec::new();
    for (index, mutant) in mutants.iter().enumerate() {
        print!("{}/{} {}: ", index + 1, mutants.len(), mutant.name);
        match tree.try_mutant(mutant, args.limit)? {
            Some(caught) => println!("caught by {caught}"),
            None => {
                println!("SURVIVED ({})", mutant.breaks);
                survivors.push(mutant.name.as_str());
            }
        }
    }
    ensure!(
        survivors.is_empty(),
        "{} of {} mutants survived: {}",
        survivors.len(),
        mutants.len(),
        survivors.join(", ")
    );
    let seconds = started.elapsed().as_secs();
    println!("{} mutants, all caught, in {seconds} s", mutants.len());
    Ok(())
}

/// Checks that the tests pass without a mutant.
fn check_unbroken(tree: &Tree, mutants: &[Mutant], limit: u32) -> Result<()> {
    let commands: HashSet<&[String]> = mutants.iter().map(|m| &*m.caught_by).collect();
    for command in commands {
        println!("without a mutant: cargo {}", command.join(" "));
        // The first command builds everything.
        let built = tree.build(command)?;
        ensure!(
            built.status.success(),
            "it does not compile:\n{}",
            tail(&built)
        );
        let output = tree.cargo(command, limit)?;
        ensure!(
            output.status.success(),
            "these tests fail without a mutant:\n{}",
            tail(&output)
        );
    }
    Ok(())
}

fn read_all() -> Result<Vec<Mutant>> {
    let folder = workspace::root().join("mutants");
    let mut patches: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    patches.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "patch")
    });
    patches.sort();
    patches.into_iter().map(read).collect()
}

fn read(patch: PathBuf) -> Result<Mutant> {
    let text = fs::read_to_string(&patch)?;
    let field = |key: &str| {
        text.lines()
            .take_while(|line| line.starts_with('#'))
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
            .with_context(|| format!("{} has no line `{key}`", patch.display()))
    };
    let caught_by = field("# caught by: cargo ")?
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let name = patch.file_stem().unwrap_or_default();
    Ok(Mutant {
        name: name.to_string_lossy().into_owned(),
        breaks: field("# breaks:")?.to_owned(),
        caught_by,
        patch,
    })
}

/// A separate checkout, so that the working tree does not change.
struct Tree {
    folder: PathBuf,
}

impl Tree {
    fn new() -> Result<Self> {
        let folder = workspace::target().join("mutants").join("tree");
        let tree = Self { folder };
        tree.remove();
        let mut add = Command::new("git");
        add.current_dir(workspace::root())
            .args(["worktree", "add", "--quiet", "--detach", "--force"])
            .arg(&tree.folder)
            .arg("HEAD");
        workspace::run(&mut add)?;
        println!("mutants of the last commit, in {}", tree.folder.display());
        Ok(tree)
    }

    fn git(&self, arguments: &[&str], patch: Option<&Path>) -> Result<()> {
        let mut git = Command::new("git");
        git.current_dir(&self.folder).args(arguments).args(patch);
        workspace::run(&mut git)
    }

    fn takes(&self, mutant: &Mutant) -> bool {
        self.git(&["apply", "--check"], Some(&mutant.patch)).is_ok()
    }

    /// The test that caught the mutant; `None` if all tests passed.
    fn try_mutant(&self, mutant: &Mutant, limit: u32) -> Result<Option<String>> {
        self.git(&["apply"], Some(&mutant.patch))?;
        let caught = self.caught(mutant, limit);
        self.git(&["checkout", "--quiet", "--", "."], None)?;
        caught
    }

    fn caught(&self, mutant: &Mutant, limit: u32) -> Result<Option<String>> {
        let built = self.build(&mutant.caught_by)?;
        if !built.status.success() {
            bail!("{} does not compile:\n{}", mutant.name, tail(&built));
        }
        let output = self.cargo(&mutant.caught_by, limit)?;
        if output.status.success() {
            return Ok(None);
        }
        // The exit status of `timeout` for a command that it stopped.
        if output.status.code() == Some(124) {
            return Ok(Some(format!("the limit of {limit} s: it hangs")));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut failed: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
            .collect();
        failed.sort_unstable();
        Ok(Some(match &*failed {
            [] => format!("the end of the test program: {}", output.status),
            [first] => (*first).to_owned(),
            [first, more @ ..] => format!("{first} and {} more", more.len()),
        }))
    }

    /// Builds the programs of the command.
    fn build(&self, command: &[String]) -> Result<Output> {
        let split = command.iter().position(|word| word == "--");
        let mut build = command[..split.unwrap_or(command.len())].to_vec();
        match build.iter().position(|word| word == "--doc") {
            // Cargo compiles the programs of documentation tests only when it runs them.
            Some(at) => {
                build.remove(at);
                build[0] = "build".to_owned();
            }
            None => build.push("--no-run".to_owned()),
        }
        self.cargo(&build, 900)
    }

    fn cargo(&self, arguments: &[String], limit: u32) -> Result<Output> {
        Command::new("timeout")
            .arg(limit.to_string())
            .arg("cargo")
            .args(arguments)
            .current_dir(&self.folder)
            .env(
                "CARGO_TARGET_DIR",
                workspace::target().join("mutants/target"),
            )
            .output()
            .context("cannot start `timeout cargo` (coreutils)")
    }

    fn remove(&self) {
        // An interrupted run may have left a tree; otherwise this does nothing.
        let _ = Command::new("git")
            .current_dir(workspace::root())
            .args(["worktree", "remove", "--force"])
            .arg(&self.folder)
            .output();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.remove();
    }
}

fn tail(output: &Output) -> String {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
