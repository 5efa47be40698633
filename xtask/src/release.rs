//! `cargo xtask release`: packs the published crates, builds and tests them with no file of the repository, and publishes them.

mod alone;
mod packages;
mod publish;

use crate::workspace;
use anyhow::Result;
use std::process::Command;

/// Options of `cargo xtask release`.
#[derive(clap::Args)]
pub struct Args {
    /// Do everything except publishing and the tag; also in a tree with changes
    #[arg(long)]
    dry_run: bool,
    /// Only pack, check contents and sizes, and check this crate alone against the other packages (for CI)
    #[arg(long, value_name = "CRATE", conflicts_with = "dry_run")]
    check: Option<String>,
    /// Publish without the tests of the packages: `--dry-run` has passed for this commit
    #[arg(long, conflicts_with_all = ["dry_run", "check"])]
    tested: bool,
}

/// Packs, checks, and without `--dry-run` and `--check` publishes.
pub fn run(args: &Args) -> Result<()> {
    let published = packages::published()?;
    let is_for_real = !args.dry_run && args.check.is_none();
    if is_for_real {
        publish::ready(&published)?;
    }
    let packed = packages::pack(&published, !is_for_real)?;
    packages::contents(&packed)?;
    packages::sizes(&packed)?;
    if !args.tested {
        let alone = alone::Alone::unpack(&packed)?;
        if let Some(name) = &args.check {
            return alone.check(name);
        }
        alone.test()?;
        alone.docs()?;
    }
    let mut sums = Command::new("sha256sum");
    sums.current_dir(packages::folder());
    sums.args(packed.iter().filter_map(|one| one.file.file_name()));
    println!(
        "\nSHA-256 sums of the packages in {}:",
        packages::folder().display()
    );
    workspace::run(&mut sums)?;
    if is_for_real {
        publish::publish(&published)?;
    } else {
        println!("\nnothing is published: --dry-run");
    }
    Ok(())
}
