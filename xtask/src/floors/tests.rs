//! Tests of the rules, with sources and tables of a few lines.

use super::check::check;
use super::graph::Imports;
use super::source;
use super::table::Table;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The imports of a library that consists of these files.
fn imports(files: &[(&str, &str)]) -> Imports {
    let named = |(name, text): &(&str, &str)| (Path::new("/c/src").join(name), (*text).to_owned());
    let files: HashMap<PathBuf, String> = files.iter().map(named).collect();
    let read = |path: &Path| files.get(path).cloned();
    let target = source::load(Path::new("/c/src/lib.rs"), &read).expect("sources that parse");
    let mut imports = Imports::default();
    imports.add(&target, Path::new("/c"));
    imports
}

/// As `from -> to: names`.
fn lines(files: &[(&str, &str)]) -> Vec<String> {
    let imports = imports(files);
    let line = |(edge, names): (&(String, String), &super::graph::Names)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (from, to) = edge;
        format!("{from} -> {to}: {}", names.join(", "))
    };
    imports.edges.iter().map(line).collect()
}

fn failures(files: &[(&str, &str)], table: &str) -> Vec<String> {
    let table = Table::parse(table).expect("a table that parses");
    check(&imports(files), &table).failures
}

#[test]
fn paths_of_uses_types_expressions_and_macros_count() {
    let a = "use crate::b::{Used, inner::{Deep as Other}};
        fn f(x: &crate::b::Typed) { super::b::called(); crate::b::noted!(1); let _ = <u8 as self::super::b::Bound>::X; }
        fn g() { println!(\"{}\", crate::b::IN_A_MACRO); }
        macro_rules! m { () => { $crate::b::made(x.crate_, y..crate::b::END) } }";
    let b = "pub struct Used; pub struct Typed; pub mod inner { pub struct Deep; }";
    let found = lines(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)]);
    let names = "Bound, Deep, END, IN_A_MACRO, Typed, Used, called, made, noted";
    assert_eq!(found, [format!("a.rs -> b.rs: {names}")]);
}

#[test]
fn reexports_are_followed_to_the_definition() {
    let files = [
        (
            "lib.rs",
            "mod a; mod b; mod c; pub use b::Thing; pub use b::*;",
        ),
        (
            "a.rs",
            "use crate::Thing; use crate::b; fn f() { b::g(); crate::h(); b::Outside::new(); }",
        ),
        (
            "b.rs",
            "pub use crate::c::g; pub use std::sync::Arc as Outside; pub mod below; pub use below::Thing;",
        ),
        ("b/below.rs", "pub struct Thing;"),
        ("c.rs", "pub fn g() {}"),
    ];
    // `h` comes through the glob of the root, or does not exist.
    let expected = [
        "a.rs -> b.rs: Outside",
        "a.rs -> b/below.rs: Thing",
        "a.rs -> c.rs: g",
        "a.rs -> lib.rs: h",
        "b.rs -> c.rs: g",
    ];
    assert_eq!(lines(&files), expected);
}

#[test]
fn what_does_not_count() {
    let files = [
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod absent;"),
        (
            "a.rs",
            "#[cfg(test)] use crate::b::A; #[cfg(all(test, unix))] fn f() { crate::b::A; }
            #[cfg(test)] mod tests { use super::*; use crate::b::A; }
            struct S; impl S { #[cfg(test)] fn g() { crate::b::A; } pub(in crate::b) fn h() {} }
            /// [`crate::b::A`]
            fn i() { quote! { crate::b::A }; use crate::b; }",
        ),
        (
            "b.rs",
            "pub struct A; #[cfg(any(test, unix))] use super::a::S;",
        ),
    ];
    assert_eq!(lines(&files), ["b.rs -> a.rs: S"]);
}

#[test]
fn a_parent_may_reexport_its_child() {
    let child = ("a/b.rs", "use super::Parent; pub struct Child;");
    let reexport = ("a.rs", "mod b; pub use b::Child; pub struct Parent;");
    assert!(failures(&[("lib.rs", "mod a;"), reexport, child], "").is_empty());

    let uses = ("a.rs", "mod b; pub use b::Child; pub struct Parent(Child);");
    let failures = failures(&[("lib.rs", "mod a;"), uses, child], "");
    let told = "a cycle: a.rs imports Child of a/b.rs; a/b.rs imports Parent of a.rs";
    assert_eq!(failures, [told]);
}

#[test]
fn macros_without_a_path_are_imports() {
    let files = [
        ("lib.rs", "#[macro_use] mod a; mod b;"),
        ("a.rs", "macro_rules! methods { () => {} }"),
        ("b.rs", "methods!();"),
    ];
    assert_eq!(lines(&files), ["b.rs -> a.rs: methods"]);
}

const THREE: [(&str, &str); 4] = [
    ("lib.rs", "mod a; mod b; mod c;"),
    ("a.rs", "pub struct A; use crate::b::B;"),
    ("b.rs", "pub struct B; use crate::c::C;"),
    ("c.rs", "pub struct C; use crate::a::A;"),
];

#[test]
fn a_cycle_is_a_failure() {
    let cycle = "a cycle: a.rs imports B of b.rs; b.rs imports C of c.rs; c.rs imports A of a.rs";
    assert_eq!(failures(&THREE, ""), [cycle]);
}

#[test]
fn files_of_one_concept_count_as_one() {
    assert!(failures(&THREE, "one_concept = [[\"a.rs\", \"b.rs\", \"c.rs\"]]").is_empty());
    let two = failures(&THREE, "one_concept = [[\"a.rs\", \"b.rs\"]]");
    let cycle = "a cycle: a.rs + b.rs imports C of c.rs; c.rs imports A of a.rs + b.rs";
    assert_eq!(two, [cycle]);
}

const ROOMS: &str = "
    [[room]]
    name = \"low\"
    floor = 1
    files = [\"lib.rs\", \"b/\"]
    [[room]]
    name = \"high\"
    floor = 2
    files = [\"a.rs\", \"b/c.rs\"]
    [[room]]
    name = \"beside\"
    floor = 2
    files = [\"b.rs\"]
";

#[test]
fn imports_of_other_rooms_point_down() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A; use crate::b::d::D;"),
        ("b.rs", "mod c; pub mod d; use crate::a::A;"),
        ("b/c.rs", "pub struct C; use crate::a::A;"),
        ("b/d.rs", "pub struct D; use super::c::C;"),
    ];
    let aside = "b.rs (beside, floor 2) imports A of a.rs (high, floor 2): imports point down only";
    let up = "b/d.rs (low, floor 1) imports C of b/c.rs (high, floor 2): imports point down only";
    assert_eq!(failures(&files, ROOMS), [aside, up]);
}

#[test]
fn every_file_has_a_room_and_every_line_a_file() {
    let files = [("lib.rs", "mod new;"), ("new.rs", "")];
    let told = [
        "floors.toml names b/, which does not exist",
        "floors.toml names a.rs, which does not exist",
        "floors.toml names b/c.rs, which does not exist",
        "floors.toml names b.rs, which does not exist",
        "new.rs has no room in floors.toml",
    ];
    assert_eq!(failures(&files, ROOMS), told);
    assert!(Table::parse(&ROOMS.replace("\"b.rs\"", "\"a.rs\"")).is_err());
}
