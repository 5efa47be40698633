//! NVIDIA's own NCCL: compares the header's layouts and numbers with ours, and checks every symbol of the library. No GPU and no driver are
//! needed.
//!
//! `CUDA_UM_TEST_NCCLS` lists them: `version=library=folder of nccl.h`, separated by commas. `cargo xtask real-nccl` fetches them and sets it.
#![allow(unsafe_code, reason = "sets an environment variable before any thread")]

mod header;

use cuda_um_sys as cuda;
use header::{Numbers, compare, each, offsets};
use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use std::path::Path;

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
    each(
        "CUDA_UM_TEST_NCCLS",
        "real-nccl",
        |version, library, include| {
            let code = layouts(version, include);
            symbols(version, library, code);
        },
    );
}

fn ours() -> Numbers {
    use cuda::ncclConfig_t as Config;
    let fields = offsets!("ncclConfig_t", Config: size magic version blocking cgaClusterSize minCTAs maxCTAs netName);
    // The layout ends with the last field of version 2.17.
    let end = offset_of!(Config, netName) + size_of::<*const u8>();
    assert_eq!((size_of::<Config>(), Config::INITIALIZER.size), (end, end));
    let others = [
        ("magic", i64::from(Config::INITIALIZER.magic)),
        ("blocking", i64::from(Config::INITIALIZER.blocking)),
        (
            "sizeof ncclUniqueId",
            size_of::<cuda::ncclUniqueId>() as i64,
        ),
        (
            "sizeof ncclResult_t",
            size_of::<cuda::ncclResult_t>() as i64,
        ),
    ];
    let numbers = cuda::NCCL_NUMBERS.iter();
    let numbers = numbers.map(|&(name, value)| (name, i64::from(value)));
    let others = others.into_iter().chain(numbers);
    let others = others.map(|(name, value)| (name.to_owned(), value));
    fields.into_iter().chain(others).collect()
}

/// Compares with the header, and returns its version.
fn layouts(version: &str, include: &str) -> i64 {
    let header = std::fs::read_to_string(Path::new(include).join("nccl.h")).unwrap();
    // Version 2.24 added the last result.
    let names = cuda::NCCL_NUMBERS.iter().map(|(name, _)| *name);
    let names = names.filter(|name| header.contains(name) || *name != "ncclTimeout");
    let files = [&CUDA_HEADERS[..], &[("program.c", PROGRAM)]].concat();
    let (library, code) = (format!("NCCL {version}"), "NCCL_VERSION_CODE");
    let names: Vec<_> = names.collect();
    let theirs = compare(&library, &files, include, &names, &ours(), &[code]);
    assert!(theirs.len() >= ours().len(), "{library}: {theirs:?}");
    theirs[code]
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
