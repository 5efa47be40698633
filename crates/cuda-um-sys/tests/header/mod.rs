//! Compares our numbers with those that a C compiler computes from NVIDIA's headers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Names and values.
pub type Numbers = BTreeMap<String, i64>;

/// The offsets of fields of a type, which has this name in the program.
macro_rules! offsets {
    ($name:literal, $type:ty: $($field:ident)*) => {
        [$((concat!($name, ".", stringify!($field)).to_owned(), std::mem::offset_of!($type, $field) as i64)),*]
    };
}
pub(crate) use offsets;

/// Calls `check` with each `version=library=folder:folder` of the variable; the folders are those of the headers.
pub fn each(variable: &str, task: &str, check: impl Fn(&str, &Path, &str)) {
    let Ok(list) = std::env::var(variable) else {
        println!("skipped: {variable} is not set (cargo xtask {task} sets it)");
        return;
    };
    let mut checked = 0;
    for entry in list.split(',') {
        let [version, library, includes] = entry.split('=').collect::<Vec<_>>()[..] else {
            panic!("version=library=folders: {entry}")
        };
        check(version, Path::new(library), includes);
        checked += 1;
    }
    println!("test result: ok. {checked} passed; 0 failed");
}

/// Compares with what `program.c`, one of the files, prints: `name value` in each line. Its `numbers.h` prints `names`. Those of
/// `aside` are not compared. Returns all.
pub fn compare(
    library: &str,
    files: &[(&str, &str)],
    includes: &str,
    names: &[&str],
    ours: &Numbers,
    aside: &[&str],
) -> Numbers {
    let folder = std::env::temp_dir().join(format!("cuda-um-sys-header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let lines: String = names.iter().map(|it| format!("NUMBER({it});\n")).collect();
    for (name, text) in files.iter().chain([&("numbers.h", &*lines)]) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let program = folder.join("program");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build.host(&target).target(&target);
    build.opt_level(0).cargo_metadata(false);
    let mut compiler = build.get_compiler().to_command();
    compiler.arg("-w").arg(folder.join("program.c"));
    compiler.arg("-o").arg(&program).arg("-I").arg(&folder);
    for include in includes.split(':') {
        compiler.arg("-I").arg(include);
    }
    let compiled = compiler.status().expect("a C compiler");
    assert!(compiled.success(), "{compiler:?}");
    let output = Command::new(&program).output().expect("the program runs");
    std::fs::remove_dir_all(&folder).unwrap();

    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let theirs = lines.map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    let theirs: Numbers = theirs.collect();
    for (name, their) in &theirs {
        let is_ours = aside.contains(&name.as_str()) || ours.get(name) == Some(their);
        assert!(is_ours, "{library}: {name} {their}: {:?}", ours.get(name));
    }
    let count = theirs.len() - aside.len();
    println!("{library}: {count} sizes, offsets and numbers agree");
    theirs
}
