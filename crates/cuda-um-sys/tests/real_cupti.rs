//! NVIDIA's own CUPTI: compares the headers' layouts and numbers with ours, and checks every symbol of the library. No GPU and
//! no driver are needed.
//!
//! `CUDA_UM_TEST_CUPTIS` lists them: `version=library=folder:folder`, separated by commas; the folders are those of the
//! headers.
//! `cargo xtask real-cudart` fetches them and sets it.
#![allow(unsafe_code, reason = "sets an environment variable before any thread")]

use cuda_um_sys as cuda;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

fn main() {
    let Ok(list) = std::env::var("CUDA_UM_TEST_CUPTIS") else {
        println!(
            "real_cupti: skipped: CUDA_UM_TEST_CUPTIS is not set (cargo xtask real-cudart sets it)"
        );
        return;
    };
    let mut checked = 0;
    for entry in list.split(',') {
        let [version, library, includes] = entry.split('=').collect::<Vec<_>>()[..] else {
            panic!("version=library=folders: {entry}")
        };
        let headers = layouts(version, includes);
        symbols(version, Path::new(library), headers);
        checked += 1;
    }
    println!("test result: ok. {checked} passed; 0 failed");
}

macro_rules! offsets {
    ($name:literal, $type:ty: $($field:ident)*) => {
        vec![$((concat!($name, ".", stringify!($field)), offset_of!($type, $field) as i64)),*]
    };
}

fn ours() -> BTreeMap<&'static str, i64> {
    use cuda::{
        CUpti_ActivityKernelPrefix as Kernel, CUpti_ActivityUnifiedMemoryCounter2 as Counter2,
        CUpti_ActivityUnifiedMemoryCounter3 as Counter3,
        CUpti_ActivityUnifiedMemoryCounterConfig as Config,
    };
    let mut all = offsets!("CUpti_ActivityUnifiedMemoryCounter2", Counter2:
        kind counterKind value start end address srcId dstId processId flags);
    // The third record begins with the fields of the second.
    all.extend(offsets!("CUpti_ActivityUnifiedMemoryCounter3", Counter2:
        kind counterKind value start end address srcId dstId processId flags));
    all.extend(
        offsets!("Kernel", Kernel: kind start end deviceId contextId streamId correlationId name),
    );
    all.extend(
        offsets!("CUpti_ActivityUnifiedMemoryCounterConfig", Config: scope kind deviceId enable),
    );
    all.extend([
        (
            "sizeof CUpti_ActivityUnifiedMemoryCounter2",
            size_of::<Counter2>() as i64,
        ),
        (
            "sizeof CUpti_ActivityUnifiedMemoryCounter3",
            size_of::<Counter3>() as i64,
        ),
        (
            "sizeof CUpti_ActivityUnifiedMemoryCounterConfig",
            size_of::<Config>() as i64,
        ),
    ]);
    assert_eq!(offset_of!(Counter3, counter2), 0);
    let numbers = cuda::NUMBERS.iter();
    all.extend(numbers.map(|&(name, value)| (name, i64::from(value))));
    all.into_iter().collect()
}

/// Compares with the layouts that a C compiler computes from the headers, and returns their API version.
fn layouts(version: &str, includes: &str) -> i64 {
    let folder = std::env::temp_dir().join(format!("cuda-um-sys-cupti-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let lines = cuda::NUMBERS.iter();
    let lines: String = lines
        .map(|(name, _)| format!("NUMBER({name});\n"))
        .collect();
    std::fs::write(folder.join("numbers.h"), lines).unwrap();
    let program = folder.join("layout");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build
        .host(&target)
        .target(&target)
        .opt_level(0)
        .cargo_metadata(false);
    let mut compiler = build.get_compiler().to_command();
    compiler
        .arg("-w")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cupti.c"));
    compiler.arg("-o").arg(&program).arg("-I").arg(&folder);
    for include in includes.split(':') {
        compiler.arg("-I").arg(include);
    }
    assert!(
        compiler.status().expect("a C compiler").success(),
        "{compiler:?}"
    );
    let output = Command::new(&program).output().expect("the program runs");
    std::fs::remove_dir_all(&folder).unwrap();

    let text = String::from_utf8(output.stdout).unwrap();
    let mut theirs: BTreeMap<&str, i64> = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect();
    let api = theirs.remove("CUPTI_API_VERSION").unwrap();
    let kernel_bytes = theirs.remove("sizeof Kernel").unwrap();
    // The simulator writes records of the same size.
    let expected = match version.split('.').next() {
        Some("11") => 200,
        Some("12") => 208,
        _ => 216,
    };
    assert_eq!(
        kernel_bytes, expected,
        "CUPTI {version}: the size of a kernel's record"
    );
    let ours = ours();
    for (name, their) in &theirs {
        assert_eq!(ours.get(name), Some(their), "CUPTI {version}: {name}");
    }
    println!(
        "CUPTI {version}: {} sizes, offsets and numbers agree",
        theirs.len()
    );
    api
}

/// Opens the library as a program does, through a table, and queries its version.
fn symbols(version: &str, library: &Path, api: i64) {
    // SAFETY: no other thread runs.
    unsafe { std::env::set_var("CUDA_UM_CUPTI", library) };
    let cupti = cuda::open_cupti(13).unwrap_or_else(|error| panic!("{version}: {error}"));
    assert!(cupti.is_library());
    // A minor release of the same CUDA may have a higher API version.
    assert_eq!(i64::from(cupti.version()), api, "{version}");
    let mut now = 0;
    // SAFETY: the place is valid for the call.
    let code = unsafe { (cupti.cuptiGetTimestamp)(&mut now) };
    println!(
        "CUPTI {version}: every symbol; API version {api}; timestamp {now} (result {})",
        code.0
    );
}
