//! NVIDIA's own CUPTI: compares the headers' layouts and numbers with ours, and checks every symbol of the library. No GPU and
//! no driver are needed.
//!
//! `CUDA_UM_TEST_CUPTIS` lists them: `version=library=folder:folder`, separated by commas; the folders are those of the
//! headers.
//! `cargo xtask real-cudart` fetches them and sets it.
#![allow(unsafe_code, reason = "sets an environment variable before any thread")]

mod header;

use cuda_um_sys as cuda;
use header::{Numbers, compare, each, offsets};
use std::mem::{offset_of, size_of};
use std::path::Path;

fn main() {
    each(
        "CUDA_UM_TEST_CUPTIS",
        "real-cudart",
        |version, library, includes| {
            let api = layouts(version, includes);
            symbols(version, library, api);
        },
    );
}

fn ours() -> Numbers {
    use cuda::{
        CUpti_ActivityKernelPrefix as Kernel, CUpti_ActivityUnifiedMemoryCounter2 as Counter2,
        CUpti_ActivityUnifiedMemoryCounter3 as Counter3,
        CUpti_ActivityUnifiedMemoryCounterConfig as Config,
    };
    let mut all = Numbers::new();
    all.extend(offsets!("CUpti_ActivityUnifiedMemoryCounter2", Counter2:
        kind counterKind value start end address srcId dstId processId flags));
    // The third record begins with the fields of the second.
    assert_eq!(offset_of!(Counter3, counter2), 0);
    all.extend(offsets!("CUpti_ActivityUnifiedMemoryCounter3", Counter2:
        kind counterKind value start end address srcId dstId processId flags));
    all.extend(offsets!("Kernel", Kernel:
        kind start end deviceId contextId streamId correlationId name));
    all.extend(offsets!("CUpti_ActivityUnifiedMemoryCounterConfig", Config:
        scope kind deviceId enable));
    let sizes = [
        ("Counter2", size_of::<Counter2>()),
        ("Counter3", size_of::<Counter3>()),
        ("CounterConfig", size_of::<Config>()),
    ];
    let sizes = sizes.map(|(name, size)| {
        let name = format!("sizeof CUpti_ActivityUnifiedMemory{name}");
        (name, size as i64)
    });
    let numbers = cuda::NUMBERS.iter();
    let numbers = numbers.map(|&(name, value)| (name.to_owned(), i64::from(value)));
    all.extend(numbers.chain(sizes));
    all
}

/// Compares with the headers, and returns their API version.
fn layouts(version: &str, includes: &str) -> i64 {
    let files = [("program.c", include_str!("cupti.c"))];
    let names: Vec<_> = cuda::NUMBERS.iter().map(|(name, _)| *name).collect();
    let (library, aside) = (
        format!("CUPTI {version}"),
        ["CUPTI_API_VERSION", "sizeof Kernel"],
    );
    let theirs = compare(&library, &files, includes, &names, &ours(), &aside);
    // The simulator writes records of the same size.
    let expected = match version.split('.').next() {
        Some("11") => 200,
        Some("12") => 208,
        _ => 216,
    };
    assert_eq!(theirs["sizeof Kernel"], expected, "{library}");
    theirs["CUPTI_API_VERSION"]
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
