//! NVIDIA's own NCCL: compares the header's layouts and numbers with ours, and checks every symbol of the library. No GPU and no driver are
//! needed.
//!
//! `CUDA_UM_TEST_NCCLS` lists them: `version=library=folder of nccl.h`, separated by commas. `cargo xtask real-nccl` fetches them and sets it.
#![allow(unsafe_code, reason = "sets an environment variable before any thread")]

use cuda_um_sys as cuda;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

/// What the header needs of CUDA's: the type of streams.
const CUDA_HEADERS: [(&str, &str); 3] = [
    (
        "cuda_runtime.h",
        "#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t;\n#define CUDART_VERSION 13000\n",
    ),
    ("cuda_fp16.h", ""),
    ("cuda_bf16.h", "#define __CUDA_BF16_TYPES_EXIST__\n"),
];

const PROGRAM: &str = r#"
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>
#define VALUE(name, value) printf("%s %lld\n", name, (long long)(value))
#define NUMBER(name) VALUE(#name, name)
#define FIELD(name) VALUE("ncclConfig_t." #name, offsetof(ncclConfig_t, name))
int main(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    FIELD(size); FIELD(magic); FIELD(version); FIELD(blocking); FIELD(cgaClusterSize); FIELD(minCTAs); FIELD(maxCTAs); FIELD(netName);
    VALUE("magic", config.magic);
    VALUE("blocking", config.blocking);
    VALUE("sizeof ncclUniqueId", sizeof(ncclUniqueId));
    VALUE("sizeof ncclResult_t", sizeof(ncclResult_t));
    VALUE("NCCL_VERSION_CODE", NCCL_VERSION_CODE);
#include "numbers.h"
    return 0;
}
"#;

fn main() {
    let Ok(list) = std::env::var("CUDA_UM_TEST_NCCLS") else {
        println!(
            "real_nccl: skipped: CUDA_UM_TEST_NCCLS is not set (cargo xtask real-nccl sets it)"
        );
        return;
    };
    let mut checked = 0;
    for entry in list.split(',') {
        let [version, library, include] = entry.split('=').collect::<Vec<_>>()[..] else {
            panic!("version=library=folder: {entry}")
        };
        let code = layouts(version, include);
        symbols(version, Path::new(library), code);
        checked += 1;
    }
    println!("test result: ok. {checked} passed; 0 failed");
}

fn ours() -> BTreeMap<&'static str, i64> {
    use cuda::ncclConfig_t as Config;
    macro_rules! offsets {
        ($($field:ident)*) => {
            vec![$((concat!("ncclConfig_t.", stringify!($field)), offset_of!(Config, $field) as i64)),*]
        };
    }
    let mut all = offsets!(size magic version blocking cgaClusterSize minCTAs maxCTAs netName);
    // The layout ends with the last field of version 2.17.
    let end = offset_of!(Config, netName) + size_of::<*const u8>();
    assert_eq!((size_of::<Config>(), Config::INITIALIZER.size), (end, end));
    all.push(("magic", i64::from(Config::INITIALIZER.magic)));
    all.push(("blocking", i64::from(Config::INITIALIZER.blocking)));
    let id = size_of::<cuda::ncclUniqueId>() as i64;
    all.push(("sizeof ncclUniqueId", id));
    let result = size_of::<cuda::ncclResult_t>() as i64;
    all.push(("sizeof ncclResult_t", result));
    let numbers = cuda::NCCL_NUMBERS.iter();
    all.extend(numbers.map(|&(name, value)| (name, i64::from(value))));
    all.into_iter().collect()
}

/// Compares with the values that a C compiler computes from the header, and returns its version.
fn layouts(version: &str, include: &str) -> i64 {
    let folder = std::env::temp_dir().join(format!("cuda-um-sys-nccl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let header = std::fs::read_to_string(Path::new(include).join("nccl.h")).unwrap();
    // Version 2.24 added the last result.
    let known = cuda::NCCL_NUMBERS.iter();
    let known = known.filter(|(name, _)| header.contains(name) || *name != "ncclTimeout");
    let lines: String = known
        .map(|(name, _)| format!("NUMBER({name});\n"))
        .collect();
    for (name, text) in CUDA_HEADERS {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(folder.join("numbers.h"), lines).unwrap();
    std::fs::write(folder.join("nccl.c"), PROGRAM).unwrap();
    let program = folder.join("layout");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build
        .host(&target)
        .target(&target)
        .opt_level(0)
        .cargo_metadata(false);
    let mut compiler = build.get_compiler().to_command();
    compiler.arg("-w").arg(folder.join("nccl.c"));
    compiler.arg("-o").arg(&program);
    compiler.arg("-I").arg(&folder).arg("-I").arg(include);
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
    let code = theirs.remove("NCCL_VERSION_CODE").unwrap();
    let ours = ours();
    for (name, their) in &theirs {
        assert_eq!(ours.get(name), Some(their), "NCCL {version}: {name}");
    }
    assert!(theirs.len() + 1 >= ours.len(), "NCCL {version}: {theirs:?}");
    println!(
        "NCCL {version}: {} sizes, offsets and numbers agree",
        theirs.len()
    );
    code
}

/// Opens the library as a program does, and asks what needs no GPU.
fn symbols(version: &str, library: &Path, code: i64) {
    // SAFETY: no other thread runs.
    unsafe { std::env::set_var("CUDA_UM_NCCL", library) };
    let nccl = cuda::open_nccl().unwrap_or_else(|error| panic!("{version}: {error}"));
    assert_eq!(i64::from(nccl.version()), code, "{version}");
    // SAFETY: any number is permitted; the text is static.
    let text = unsafe { CStr::from_ptr((nccl.ncclGetErrorString)(cuda::ncclResult_t(4))) };
    assert!(
        text.to_string_lossy().contains("invalid argument"),
        "{text:?}"
    );
    println!("NCCL {version}: every symbol; version {code}");
}
