//! `cargo xtask api`: the public items of the published crates, compared with the files of `docs/api`, and their examples.

use crate::{examples_of, release, workspace};
use anyhow::{Context, Result, ensure};
use public_api::Builder;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;

/// Generated from NVIDIA's headers; `cargo xtask bindgen --check` compares it.
const GENERATED: &str = "cuda-um-sys";

/// Options of `cargo xtask api`.
#[derive(clap::Args)]
pub struct Args {
    /// Write the files
    #[arg(long)]
    bless: bool,
}

/// Makes the documentation as JSON, with the settings of docs.rs and no warnings, and compares the public items.
pub fn run(args: &Args) -> Result<()> {
    let published = release::published()?;
    let mut doc = workspace::cargo();
    // Items of features get their note only with `--cfg docsrs`.
    let flags = "--cfg docsrs -D warnings -Z unstable-options --output-format json";
    doc.env("RUSTDOC", workspace::root().join("xtask/src/rustdoc.sh"));
    doc.env("RUSTDOCFLAGS", flags);
    // The whole workspace: cargo then uses the dependencies that clippy has checked, and rustdoc sees the other crates, too.
    doc.args(["doc", "--workspace", "--lib", "--no-deps"]);
    workspace::run(doc.args(release::features(&published)))?;

    let folder = workspace::root().join("docs/api");
    let (mut changed, mut crates) = (Vec::new(), Vec::new());
    for one in published.iter().filter(|one| one.name != GENERATED) {
        let json = one.name.replace('-', "_") + ".json";
        let json = workspace::target().join("doc").join(json);
        let api = public_items(&json).with_context(|| format!("{}", json.display()))?;
        crates.push((json, api.clone()));
        let file = folder.join(format!("{}.txt", one.name));
        if args.bless {
            fs::create_dir_all(&folder)?;
            fs::write(&file, api)?;
            continue;
        }
        let old = fs::read_to_string(&file).unwrap_or_default();
        let sets = [&old, &api].map(|text| text.lines().collect::<BTreeSet<_>>());
        let removed = sets[0].difference(&sets[1]).map(|line| ("-", line));
        let added = sets[1].difference(&sets[0]).map(|line| ("+", line));
        for (sign, line) in removed.chain(added) {
            println!("{sign} {line}");
            changed.push(&one.name);
        }
    }
    examples_of::check(&crates)?;
    changed.dedup();
    ensure!(
        changed.is_empty(),
        "the public items of {changed:?} are not those of docs/api: what a version may change is in docs/stability.md; \
         `cargo xtask api --bless` writes the files"
    );
    Ok(())
}

/// One line for each public item. Where a type implements a trait, its functions are left out, as are derived implementations.
fn public_items(json: &Path) -> Result<String> {
    let builder = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true);
    let api = builder.build()?;
    let (mut traits, mut own) = (HashSet::new(), HashSet::new());
    let lines: Vec<_> = api.items().map(|item| (item, item.to_string())).collect();
    for (item, line) in &lines {
        if line.starts_with("impl") {
            let impls = if line.contains(" for ") {
                &mut traits
            } else {
                &mut own
            };
            impls.insert(item.id());
        }
    }
    let mut text = String::new();
    for (item, line) in lines {
        let is_of_trait = item.parent_id().is_some_and(|id| traits.contains(&id));
        let is_chosen = line.starts_with("pub type");
        if (!is_of_trait || is_chosen) && !own.contains(&item.id()) {
            text += &line;
            text.push('\n');
        }
    }
    Ok(text)
}
