//! Compares sizes, offsets and constants of the bindings with those that a C compiler computes from NVIDIA's headers.
//!
//! `CUDA_UM_TEST_INCLUDES` lists the include folders of each version: `version=folder:folder`, separated by commas.
//! `cargo xtask real-cudart` fetches them and sets it.

use cuda_um_sys as cuda;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    sizes_of_the_documented_abi();
    let Ok(versions) = std::env::var("CUDA_UM_TEST_INCLUDES") else {
        println!(
            "layout: skipped the C compiler: CUDA_UM_TEST_INCLUDES is not set (cargo xtask real-cudart sets it)"
        );
        println!("test result: ok. 1 passed; 0 failed");
        return;
    };
    let mut passed = 1;
    let mut compared = BTreeSet::new();
    for version in versions.split(',') {
        let (version, folders) = version.split_once('=').expect("version=folder:folder");
        compared.extend(compare(
            version,
            &folders.split(':').map(PathBuf::from).collect::<Vec<_>>(),
        ));
        passed += 1;
    }
    let never: Vec<String> = ours()
        .into_keys()
        .filter(|name| !compared.contains(name))
        .collect();
    assert!(
        never.is_empty(),
        "in the bindings, and in the headers of no version: {never:?}"
    );
    println!("test result: ok. {passed} passed; 0 failed");
}

fn sizes_of_the_documented_abi() {
    assert_eq!(size_of::<cuda::cudaMemLocation>(), 8);
    assert_eq!(size_of::<cuda::cudaMemPoolProps>(), 88);
    let reserved = size_of::<[std::ffi::c_long; 8]>();
    assert_eq!(size_of::<cuda::cudaPointerAttributes>(), 24 + reserved);
    assert_eq!(
        size_of::<Option<cuda::PFN_cudaMalloc>>(),
        size_of::<*const ()>()
    );
}

/// Compares all names that this version's headers have, and returns these names.
fn compare(version: &str, includes: &[PathBuf]) -> BTreeSet<String> {
    let ours = ours();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().to_owned();
    let mentioned = words_of(&includes[0]);
    let constants = constants()
        .into_keys()
        .filter(|name| mentioned.contains(*name));
    let lines: String = constants
        .map(|name| format!("CONSTANT({name});\n"))
        .collect();
    std::fs::write(folder.join("constants.h"), lines).unwrap();

    let program = folder.join("layout");
    let mut compiler = c_compiler();
    compiler
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layout.c"))
        .arg("-o")
        .arg(&program);
    for include in includes.iter().chain([&folder]) {
        compiler.arg("-I").arg(include);
    }
    assert!(
        compiler.status().expect("a C compiler").success(),
        "{compiler:?}"
    );
    let output = Command::new(&program).output().expect("the program runs");

    let text = String::from_utf8(output.stdout).unwrap();
    let theirs = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name, value.parse().unwrap()));
    let theirs: BTreeMap<&str, i64> = theirs.collect();
    for (&name, &their) in &theirs {
        let our = *ours
            .get(name)
            .unwrap_or_else(|| panic!("layout.c prints {name}, which ours() lacks"));
        // Before 13 the struct ends after the pointers; the bindings use the larger form for all versions.
        if name == "sizeof cudaPointerAttributes" && !version.starts_with("13") {
            assert!(their <= our, "CUDA {version}: {name} is {their}");
            continue;
        }
        assert_eq!(our, their, "CUDA {version}: {name}");
    }
    println!(
        "CUDA {version}: {} sizes, offsets and constants agree",
        theirs.len()
    );
    theirs.into_keys().map(str::to_owned).collect()
}

/// The compiler that a build script would get; the headers of the wheels are for Linux.
fn c_compiler() -> Command {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build
        .host(&target)
        .target(&target)
        .opt_level(0)
        .cargo_metadata(false);
    build.get_compiler().to_command()
}

/// All words of the headers that declare constants.
fn words_of(include: &Path) -> BTreeSet<String> {
    let texts = ["driver_types.h", "cuda_runtime_api.h", "cuda.h"].map(|header| {
        std::fs::read_to_string(include.join(header))
            .unwrap_or_else(|error| panic!("{header}: {error}"))
    });
    // Comments may name constants of a later version: only code counts.
    let code = texts.iter().flat_map(|text| {
        text.split("/*")
            .map(|part| part.rsplit("*/").next().unwrap_or(""))
    });
    code.flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .map(str::to_owned)
        .collect()
}

/// Every constant in the text of the bindings: of enums (`Enum(1)`) and of macros.
fn constants() -> BTreeMap<&'static str, i64> {
    let lines = include_str!("../src/bindings/common.rs")
        .split("pub const ")
        .skip(1);
    let constants = lines.map(|rest| {
        let (name, rest) = rest.split_once(':').unwrap();
        let (_, value) = rest.split_once(';').unwrap().0.split_once('=').unwrap();
        let number = value
            .rsplit('(')
            .next()
            .unwrap()
            .trim_matches(|c: char| !c.is_ascii_digit());
        (
            name,
            number
                .parse()
                .unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
        )
    });
    constants.collect()
}

macro_rules! sizes_and_offsets {
    ($($type:ident { $($field:ident as $name:literal),* })*) => {
        vec![$(
            (concat!("sizeof ", stringify!($type)), size_of::<cuda::$type>() as i64),
            $((concat!(stringify!($type), ".", $name), offset_of!(cuda::$type, $field) as i64),)*
        )*]
    };
}

fn ours() -> BTreeMap<String, i64> {
    let mut ours = sizes_and_offsets! {
        cudaMemLocation { type_ as "type", id as "id" }
        cudaMemAccessDesc { location as "location", flags as "flags" }
        cudaMemPoolProps {
            allocType as "allocType", handleTypes as "handleTypes", location as "location",
            win32SecurityAttributes as "win32SecurityAttributes", maxSize as "maxSize", usage as "usage"
        }
        cudaPointerAttributes {
            type_ as "type", device as "device", devicePointer as "devicePointer", hostPointer as "hostPointer"
        }
        cudaMemcpyAttributes {
            srcAccessOrder as "srcAccessOrder", srcLocHint as "srcLocHint", dstLocHint as "dstLocHint", flags as "flags"
        }
        cudaMemsetParams {
            dst as "dst", pitch as "pitch", value as "value", elementSize as "elementSize", width as "width", height as "height"
        }
        cudaGraphExecUpdateResultInfo { result as "result", errorNode as "errorNode", errorFromNode as "errorFromNode" }
        CUDA_KERNEL_NODE_PARAMS {
            func as "func", gridDimX as "gridDimX", blockDimX as "blockDimX", sharedMemBytes as "sharedMemBytes",
            kernelParams as "kernelParams", extra as "extra", kern as "kern", ctx as "ctx"
        }
        cudaError_t {}
        CUresult {}
        CUdeviceptr {}
        CUdevice {}
    };
    ours.extend([
        ("cudaCpuDeviceId", i64::from(cuda::cudaCpuDeviceId)),
        ("cudaInvalidDeviceId", i64::from(cuda::cudaInvalidDeviceId)),
        ("cudaStreamLegacy", cuda::cudaStreamLegacy.addr() as i64),
        (
            "cudaStreamPerThread",
            cuda::cudaStreamPerThread.addr() as i64,
        ),
    ]);
    ours.extend(constants());
    ours.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
