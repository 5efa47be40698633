//! The part of `cargo xtask api` that asks of each public item: which example shows it, or why does it need none?

use crate::{floors, workspace};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;

/// Functions whose names mean other things, too: an example of one names its type.
const COMMON: &str = " all check close copy end fill get host is_empty kind len load measure name new of open read save start stop time wait write ";

/// Items that neither an example shows nor a rule explains, each with a reason.
const REASONS: &str = "docs/api/without-example.txt";

type Words = HashSet<String>;

fn words(text: &str) -> Words {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.map(str::to_owned).collect()
}

/// The words of code, without comments and the lines that rustdoc hides.
fn shown(code: &str) -> Words {
    let lines = code.lines().filter(|line| !line.trim().starts_with("# "));
    let lines = lines.filter_map(|line| line.split("//").next());
    words(&lines.collect::<Vec<_>>().join("\n"))
}

/// The words of each block of a page that is compiled.
fn blocks(page: &str) -> impl Iterator<Item = Words> {
    let fenced = page.split("```").skip(1).step_by(2);
    let blocks = fenced.filter_map(|block| block.split_once('\n'));
    let compiled = blocks.filter(|(tag, _)| matches!(*tag, "" | "rust" | "no_run" | "rust,no_run"));
    compiled.map(|(_, code)| shown(code))
}

/// The kind of an item (`pub` of a variant or a field) and its path, from its line in `docs/api`.
fn item(line: &str) -> Option<[String; 2]> {
    let mut depth = 0;
    let is_outside = |c: &char| {
        depth += i32::from(*c == '<');
        let is_outside = depth == 0;
        depth -= i32::from(*c == '>');
        is_outside
    };
    let line = line.rsplit_once("] pub ").map_or(line, |(_, item)| item);
    let plain = format!("pub {line}").replace("->", "");
    let plain: String = plain.chars().filter(is_outside).collect();
    let head = plain.split(['(', '=']).next()?.split(": ").next()?;
    let mut last = head.split_whitespace().map(str::to_owned).rev();
    let (path, kind) = (last.next()?, last.next()?);
    (!line.starts_with("impl") && kind != "mod" && kind != "use").then_some([kind, path])
}

/// Whether a function only returns a value, which the page of its type explains.
fn is_value(line: &str, name: &str) -> bool {
    let after = |of: &str| Some(line.split_once(&format!("{name}({of}) -> "))?.1);
    after("&self").is_some_and(|value| !value.ends_with("Result<()>"))
        || after("&mut self").is_some_and(|value| value.starts_with(['&', '*']))
        || after("self")
            .is_some_and(|value| matches!(value, "bool" | "u32" | "u64" | "&'static str"))
}

/// Fails for an item without an example or a reason, and for a reason that is not needed. A crate is its JSON of rustdoc with its items.
pub fn check(crates: &[(PathBuf, String)]) -> Result<()> {
    let root = workspace::root();
    let read = |path: &str| fs::read_to_string(root.join(path)).context(path.to_owned());
    let (mut programs, mut shared) = (Vec::new(), Vec::new());
    floors::collect(&root.join("examples/src"), &mut programs)?;
    floors::collect(&root.join("examples/starter/src"), &mut programs)?;
    for program in &programs {
        shared.push(shown(&fs::read_to_string(program)?));
    }
    for page in read("examples/src/pages.rs")?.split("\"../../").skip(1) {
        shared.extend(blocks(&read(page.split('"').next().unwrap_or_default())?));
    }
    let (mut counts, mut used) = (BTreeMap::new(), Words::new());
    let (mut left, mut types) = (BTreeSet::new(), Vec::new());
    for (json, api) in crates {
        let json: serde_json::Value = serde_json::from_slice(&fs::read(json)?)?;
        let index = json["index"].as_object().context("no index")?;
        let library = &index[&json["root"].to_string()]["span"]["filename"];
        let library = library.as_str().context("no file")?;
        let pages = index.values().filter_map(|item| item["docs"].as_str());
        let mut own: Vec<_> = pages.flat_map(blocks).collect();
        own.extend(blocks(&read(&library.replace("src/lib.rs", "README.md"))?));
        for line in api.lines().collect::<BTreeSet<_>>() {
            let Some([kind, path]) = item(line) else {
                continue;
            };
            let (above, name) = path.rsplit_once("::").unwrap_or_default();
            let owner = above.rsplit("::").next().unwrap_or_default();
            let is_common = COMMON.contains(&format!(" {name} "));
            let mut all = shared
                .iter()
                .chain(&own)
                .filter(|block| block.contains(name));
            let is_call = kind == "fn" || kind == "const";
            let rule = if all.any(|block| !is_common || block.contains(owner)) {
                used.extend(words(line));
                "an example"
            } else if is_call && is_value(line, name) {
                "a value of its type"
            } else if !is_call && owner.starts_with(char::is_uppercase) {
                used.extend(words(line));
                "a part of its type"
            } else if is_call {
                left.insert(path);
                "a reason"
            } else {
                types.push((name.to_owned(), path));
                "a signature, or a reason"
            };
            *counts.entry(rule).or_insert(0) += 1;
        }
    }
    let unused = types.into_iter().filter(|(name, _)| !used.contains(name));
    left.extend(unused.map(|(_, path)| path));
    let reasons = read(REASONS)?;
    let reasons = reasons.lines().filter_map(|line| line.split(": ").next());
    let reasons: BTreeSet<_> = reasons.map(str::to_owned).collect();
    let wrong = &left ^ &reasons;
    println!(
        "{counts:?} show the public items; {} reasons",
        reasons.len()
    );
    ensure!(
        wrong.is_empty(),
        "no example shows these public items, or one does and {REASONS} has them: {wrong:#?}"
    );
    Ok(())
}
