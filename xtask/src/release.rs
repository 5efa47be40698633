//! `cargo xtask release`: packs the published crates, builds and tests them with no file of the repository, and publishes them.

mod alone;
mod files;
mod packages;
mod publish;

pub use packages::{features, published};

use crate::workspace;
use anyhow::Result;
use std::process::Command;

/// Options of `cargo xtask release`.
#[derive(clap::Args)]
pub struct Args {
    /// Do everything except publishing and the tag; also in a tree with changes
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: build the Python wheels, too (`python/wheels`)
    #[arg(long, requires = "dry_run")]
    wheels: bool,
    /// Only pack, check contents and sizes, and check this crate alone against the other packages (for CI)
    #[arg(long, value_name = "CRATE", conflicts_with = "dry_run")]
    check: Option<String>,
    /// Only pack, and make the documentation as docs.rs does; needs a nightly toolchain
    #[arg(long, conflicts_with_all = ["dry_run", "check"])]
    docs: bool,
    /// Publish the files that `--dry-run --wheels` left in target/dist for this commit
    #[arg(long, conflicts_with_all = ["dry_run", "check", "docs"])]
    tested: bool,
}

/// Packs, checks, and publishes unless an option says otherwise.
pub fn run(args: &Args) -> Result<()> {
    let published = published()?;
    let is_part = args.check.is_some() || args.docs;
    let is_for_real = !args.dry_run && !is_part;
    let ready = publish::ready(&published);
    if is_for_real {
        ready?;
    } else if let (Err(problem), false) = (ready, is_part) {
        println!("a release would be refused: {problem:#}\n");
    }
    let packed = packages::pack(&published, !is_for_real)?;
    packages::contents(&packed)?;
    packages::sizes(&packed)?;
    if args.tested {
        files::same(&packed)?;
    } else {
        let alone = alone::Alone::unpack(&published, &packed)?;
        if let Some(name) = &args.check {
            return alone.check(name);
        }
        alone.docs()?;
        if args.docs {
            return Ok(());
        }
        alone.test()?;
        files::start(&packed)?;
        alone.bills(&files::folder())?;
        if is_for_real || args.wheels {
            workspace::run(&mut Command::new(workspace::root().join("python/wheels")))?;
        }
        files::sums()?;
    }
    if is_for_real {
        publish::publish(&published)?;
    } else {
        println!("\nnothing is published: --dry-run");
    }
    Ok(())
}
