//! NVIDIA's own CUPTI and NCCL: compares the headers' layouts and numbers with ours, and checks every symbol of the library. No GPU and no
//! driver are needed.
//!
//! `CUDA_UM_TEST_CUPTIS` and `CUDA_UM_TEST_NCCLS` list them: `version=library=folder:folder`, separated by commas; the folders are those of the
//! headers. `cargo xtask real-cudart` and `cargo xtask real-nccl` fetch them and set it.
#![allow(unsafe_code, reason = "sets environment variables before any thread")]

use cuda_um_sys as cuda;
use std::collections::BTreeMap;
use std::ffi::CStr;
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
    each("CUDA_UM_TEST_CUPTIS", "real-cudart", cupti);
    each("CUDA_UM_TEST_NCCLS", "real-nccl", nccl);
}

/// Calls `check` with each version, library and folders of the variable.
fn each(variable: &str, task: &str, check: fn(&str, &Path, &str)) {
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
    let theirs = compare(
        &format!("CUPTI {version}"),
        &[("program.c", include_str!("cupti.c"))],
        includes,
        &layouts.concat(),
        cuda::NUMBERS,
        &["CUPTI_API_VERSION", "sizeof Kernel"],
    );
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

/// The program of NCCL, and what its header needs of CUDA's: the type of streams.
const NCCL_FILES: [(&str, &str); 4] = [
    ("program.c", include_str!("nccl.c")),
    (
        "cuda_runtime.h",
        "#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t;\n#define CUDART_VERSION 13000\n",
    ),
    ("cuda_fp16.h", ""),
    ("cuda_bf16.h", "#define __CUDA_BF16_TYPES_EXIST__\n"),
];

fn nccl(version: &str, library: &Path, include: &str) {
    use cuda::ncclConfig_t as Config;
    // The layout ends with the last field of version 2.17.
    let end = offset_of!(Config, netName) + size_of::<*const u8>();
    assert_eq!((size_of::<Config>(), Config::INITIALIZER.size), (end, end));
    let others = [
        ("magic", Config::INITIALIZER.magic as usize),
        ("blocking", Config::INITIALIZER.blocking as usize),
        ("sizeof ncclUniqueId", size_of::<cuda::ncclUniqueId>()),
        ("sizeof ncclResult_t", size_of::<cuda::ncclResult_t>()),
    ];
    let fields = offsets!("ncclConfig_t", Config: size magic version blocking cgaClusterSize minCTAs maxCTAs netName);
    let layouts = [&others[..], &fields].concat();
    // Version 2.24 added the last result.
    let header = std::fs::read_to_string(Path::new(include).join("nccl.h")).unwrap();
    let is_known = |(name, _): &(&str, u32)| header.contains(name) || *name != "ncclTimeout";
    let numbers = cuda::NCCL_NUMBERS.iter().copied().filter(is_known);
    let numbers: Vec<_> = numbers.collect();
    let theirs = compare(
        &format!("NCCL {version}"),
        &NCCL_FILES,
        include,
        &layouts,
        &numbers,
        &["NCCL_VERSION_CODE"],
    );
    assert_eq!(
        theirs.len(),
        layouts.len() + numbers.len() + 1,
        "{theirs:?}"
    );

    // SAFETY: no other thread runs.
    unsafe { std::env::set_var("CUDA_UM_NCCL", library) };
    let nccl = cuda::open_nccl().unwrap_or_else(|error| panic!("{version}: {error}"));
    let code = i64::from(nccl.version());
    assert_eq!(code, theirs["NCCL_VERSION_CODE"], "{version}");
    // SAFETY: any number is permitted; the text is static.
    let text = unsafe { CStr::from_ptr((nccl.ncclGetErrorString)(cuda::ncclResult_t(4))) };
    let text = text.to_string_lossy();
    assert!(text.contains("invalid argument"), "{text}");
    println!("NCCL {version}: every symbol; version {code}");
}

/// Compares our layouts and numbers with what `program.c`, one of the files, prints: `name value` in each line. Its `numbers.h` prints
/// the numbers. Those of `aside` are not compared. Returns all.
fn compare(
    library: &str,
    files: &[(&str, &str)],
    includes: &str,
    layouts: &[(&str, usize)],
    numbers: &[(&str, u32)],
    aside: &[&str],
) -> Numbers {
    let folder = std::env::temp_dir().join(format!("cuda-um-sys-header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let lines = numbers.iter().map(|(name, _)| format!("NUMBER({name});\n"));
    let lines: String = lines.collect();
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

    let layouts = layouts.iter().map(|&(name, value)| (name, value as i64));
    let numbers = numbers
        .iter()
        .map(|&(name, value)| (name, i64::from(value)));
    let ours: BTreeMap<_, _> = layouts.chain(numbers).collect();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let theirs = lines.map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    let theirs: Numbers = theirs.collect();
    for (name, their) in &theirs {
        let name = name.as_str();
        let is_ours = aside.contains(&name) || ours.get(name) == Some(their);
        assert!(is_ours, "{library}: {name} {their}: {:?}", ours.get(name));
    }
    let count = theirs.len() - aside.len();
    println!("{library}: {count} sizes, offsets and numbers agree");
    theirs
}
