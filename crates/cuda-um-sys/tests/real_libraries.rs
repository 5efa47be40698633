//! NVIDIA's own CUPTI: compares the headers' layouts and numbers with ours, and checks every symbol of the library. No GPU and no driver are
//! needed.
//!
//! `CUDA_UM_TEST_CUPTIS` lists libraries: `version=library=folder:folder`, separated by commas; the folders are those of the headers.
//! `cargo xtask real-cudart` fetches them and sets it.
#![allow(unsafe_code, reason = "sets environment variables before any thread")]

use cuda_um_sys as cuda;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

/// Names and values.
type Numbers = BTreeMap<String, i64>;

/// The offsets of fields of a type, which has this name in the program.
macro_rules! offsets {
    ($name:literal, $type:ty: $($field:ident)*) => {
        [$((concat!($name, ".", stringify!($field)), offset_of!($type, $field))),*]
    };
}

fn main() {
    let Ok(list) = std::env::var("CUDA_UM_TEST_CUPTIS") else {
        println!("skipped: CUDA_UM_TEST_CUPTIS is not set (cargo xtask real-cudart sets it)");
        return;
    };
    let mut checked = 0;
    for entry in list.split(',') {
        let [version, library, includes] = entry.split('=').collect::<Vec<_>>()[..] else {
            panic!("version=library=folders: {entry}")
        };
        cupti(version, Path::new(library), includes);
        checked += 1;
    }
    println!("test result: ok. {checked} passed; 0 failed");
}

fn cupti(version: &str, library: &Path, includes: &str) {
    use cuda::{
        CUpti_ActivityKernelPrefix as Kernel, CUpti_ActivityUnifiedMemoryCounter2 as Counter2,
        CUpti_ActivityUnifiedMemoryCounter3 as Counter3,
        CUpti_ActivityUnifiedMemoryCounterConfig as Config,
    };
    // The third record begins with the fields of the second.
    assert_eq!(offset_of!(Counter3, counter2), 0);
    let sizes = [
        (
            "sizeof CUpti_ActivityUnifiedMemoryCounter2",
            size_of::<Counter2>(),
        ),
        (
            "sizeof CUpti_ActivityUnifiedMemoryCounter3",
            size_of::<Counter3>(),
        ),
        (
            "sizeof CUpti_ActivityUnifiedMemoryCounterConfig",
            size_of::<Config>(),
        ),
    ];
    let layouts = [
        &sizes[..],
        &offsets!("CUpti_ActivityUnifiedMemoryCounter2", Counter2:
            kind counterKind value start end address srcId dstId processId flags),
        &offsets!("CUpti_ActivityUnifiedMemoryCounter3", Counter2:
            kind counterKind value start end address srcId dstId processId flags),
        &offsets!("Kernel", Kernel: kind start end deviceId contextId streamId correlationId name),
        &offsets!("CUpti_ActivityUnifiedMemoryCounterConfig", Config: scope kind deviceId enable),
    ];
    let theirs = compare(&format!("CUPTI {version}"), includes, &layouts.concat());
    // The simulator writes records of the same size.
    let expected = match version.split('.').next() {
        Some("11") => 200,
        Some("12") => 208,
        _ => 216,
    };
    assert_eq!(theirs["sizeof Kernel"], expected, "CUPTI {version}");

    // SAFETY: no other thread runs.
    unsafe { std::env::set_var("CUDA_UM_CUPTI", library) };
    let cupti = cuda::open_cupti(13).unwrap_or_else(|error| panic!("{version}: {error}"));
    assert!(cupti.is_library());
    // A minor release of the same CUDA may have a higher API version.
    let api = i64::from(cupti.version());
    assert_eq!(api, theirs["CUPTI_API_VERSION"], "{version}");
    let mut now = 0;
    // SAFETY: the place is valid for the call.
    let code = unsafe { (cupti.cuptiGetTimestamp)(&mut now) };
    println!(
        "CUPTI {version}: every symbol; API version {api}; timestamp {now} (result {})",
        code.0
    );
}

/// Values of the program that have no counterpart here.
const ASIDE: [&str; 2] = ["CUPTI_API_VERSION", "sizeof Kernel"];

/// Compares our layouts and numbers with what `cupti.c` prints: `name value` in each line. Its `numbers.h` prints the numbers. Returns all.
fn compare(library: &str, includes: &str, layouts: &[(&str, usize)]) -> Numbers {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let lines = cuda::NUMBERS
        .iter()
        .map(|(name, _)| format!("NUMBER({name});\n"));
    let lines: String = lines.collect();
    for (name, text) in [
        ("program.c", include_str!("cupti.c")),
        ("numbers.h", &lines),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let program = folder.join("program");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build.host(&target).target(&target);
    build.opt_level(0).cargo_metadata(false);
    let mut compiler = build.get_compiler().to_command();
    compiler.arg("-w").arg(folder.join("program.c"));
    compiler.arg("-o").arg(&program).arg("-I").arg(folder);
    for include in includes.split(':') {
        compiler.arg("-I").arg(include);
    }
    let compiled = compiler.status().expect("a C compiler");
    assert!(compiled.success(), "{compiler:?}");
    let output = Command::new(&program).output().expect("the program runs");

    let layouts = layouts.iter().map(|&(name, value)| (name, value as i64));
    let numbers = cuda::NUMBERS
        .iter()
        .map(|&(name, value)| (name, i64::from(value)));
    let ours: BTreeMap<_, _> = layouts.chain(numbers).collect();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let theirs = lines.map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    let theirs: Numbers = theirs.collect();
    for (name, their) in &theirs {
        let name = name.as_str();
        let is_ours = ASIDE.contains(&name) || ours.get(name) == Some(their);
        assert!(is_ours, "{library}: {name} {their}: {:?}", ours.get(name));
    }
    let count = theirs.len() - ASIDE.len();
    println!("{library}: {count} sizes, offsets and numbers agree");
    theirs
}
