//! Sizes, offsets and constants of the bindings against what a C compiler makes of NVIDIA's headers.
//!
//! `CUDA_UM_TEST_INCLUDES` lists the include folders of each version: `version=folder:folder`, separated by commas.
//! `cargo xtask real-cudart` fetches them and sets it.

use cuda_um_sys as cuda;
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::process::Command;

fn main() {
    sizes_of_the_documented_abi();
    let Ok(versions) = std::env::var("CUDA_UM_TEST_INCLUDES") else {
        println!("layout: skipped the C compiler: CUDA_UM_TEST_INCLUDES is not set (cargo xtask real-cudart sets it)");
        println!("test result: ok. 1 passed; 0 failed");
        return;
    };
    let mut passed = 1;
    for version in versions.split(',') {
        let (version, folders) = version.split_once('=').expect("version=folder:folder");
        compare(version, &folders.split(':').collect::<Vec<_>>());
        passed += 1;
    }
    println!("test result: ok. {passed} passed; 0 failed");
}

fn sizes_of_the_documented_abi() {
    assert_eq!(size_of::<cuda::cudaMemLocation>(), 8);
    assert_eq!(size_of::<cuda::cudaMemPoolProps>(), 88);
    assert_eq!(size_of::<cuda::cudaPointerAttributes>(), 88);
}

fn compare(version: &str, includes: &[&str]) {
    let program = std::env::temp_dir().join(format!("cuda-um-sys-layout-{}", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layout.c");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.arg(source).arg("-o").arg(&program).args(includes.iter().map(|folder| format!("-I{folder}")));
    assert!(compiler.status().expect("a C compiler").success(), "{compiler:?}");
    let output = Command::new(&program).output().expect("the program runs");
    std::fs::remove_file(&program).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: BTreeMap<&str, i64> =
        text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(name, value)| (name, value.parse().unwrap())).collect();
    let ours = ours();
    assert_eq!(theirs.len(), ours.len(), "layout.c and ours() name the same things");
    for (name, value) in &ours {
        let their = theirs[name];
        // Before 13 the struct ends after the pointers; the bindings have the larger form, which serves for both.
        if *name == "sizeof cudaPointerAttributes" && !version.starts_with("13") {
            assert!(their <= *value, "CUDA {version}: {name} is {their}");
            continue;
        }
        assert_eq!(*value, their, "CUDA {version}: {name}");
    }
    println!("CUDA {version}: {} sizes, offsets and constants agree", ours.len());
}

#[allow(clippy::unnecessary_cast, reason = "constants of several integer types")]
fn ours() -> BTreeMap<&'static str, i64> {
    use cuda::{cudaMemAccessDesc, cudaMemLocation, cudaMemPoolProps, cudaPointerAttributes};
    BTreeMap::from([
        ("sizeof cudaMemLocation", size_of::<cudaMemLocation>() as i64),
        ("cudaMemLocation.type", offset_of!(cudaMemLocation, type_) as i64),
        ("cudaMemLocation.id", offset_of!(cudaMemLocation, id) as i64),
        ("sizeof cudaMemPoolProps", size_of::<cudaMemPoolProps>() as i64),
        ("cudaMemPoolProps.location", offset_of!(cudaMemPoolProps, location) as i64),
        ("sizeof cudaMemAccessDesc", size_of::<cudaMemAccessDesc>() as i64),
        ("sizeof cudaPointerAttributes", size_of::<cudaPointerAttributes>() as i64),
        ("cudaPointerAttributes.type", offset_of!(cudaPointerAttributes, type_) as i64),
        ("cudaPointerAttributes.device", offset_of!(cudaPointerAttributes, device) as i64),
        ("cudaPointerAttributes.devicePointer", offset_of!(cudaPointerAttributes, devicePointer) as i64),
        ("cudaPointerAttributes.hostPointer", offset_of!(cudaPointerAttributes, hostPointer) as i64),
        ("cudaErrorMemoryAllocation", cuda::cudaError::cudaErrorMemoryAllocation.0 as i64),
        ("cudaErrorInsufficientDriver", cuda::cudaError::cudaErrorInsufficientDriver.0 as i64),
        ("cudaErrorIllegalAddress", cuda::cudaError::cudaErrorIllegalAddress.0 as i64),
        ("cudaErrorNotReady", cuda::cudaError::cudaErrorNotReady.0 as i64),
        ("cudaDevAttrManagedMemory", cuda::cudaDeviceAttr::cudaDevAttrManagedMemory.0 as i64),
        ("cudaDevAttrPageableMemoryAccess", cuda::cudaDeviceAttr::cudaDevAttrPageableMemoryAccess.0 as i64),
        ("cudaDevAttrConcurrentManagedAccess", cuda::cudaDeviceAttr::cudaDevAttrConcurrentManagedAccess.0 as i64),
        ("cudaDevAttrHostRegisterSupported", cuda::cudaDeviceAttr::cudaDevAttrHostRegisterSupported.0 as i64),
        ("cudaDevAttrMemoryPoolsSupported", cuda::cudaDeviceAttr::cudaDevAttrMemoryPoolsSupported.0 as i64),
        ("cudaMemAdviseSetReadMostly", cuda::cudaMemoryAdvise::cudaMemAdviseSetReadMostly.0 as i64),
        ("cudaMemAdviseSetPreferredLocation", cuda::cudaMemoryAdvise::cudaMemAdviseSetPreferredLocation.0 as i64),
        ("cudaMemAdviseUnsetAccessedBy", cuda::cudaMemoryAdvise::cudaMemAdviseUnsetAccessedBy.0 as i64),
        (
            "cudaMemRangeAttributeLastPrefetchLocation",
            cuda::cudaMemRangeAttribute::cudaMemRangeAttributeLastPrefetchLocation.0 as i64,
        ),
        ("cudaMemLocationTypeDevice", cuda::cudaMemLocationType::cudaMemLocationTypeDevice.0 as i64),
        ("cudaMemAttachGlobal", cuda::cudaMemAttachGlobal as i64),
        ("cudaHostAllocMapped", cuda::cudaHostAllocMapped as i64),
        ("cudaStreamNonBlocking", cuda::cudaStreamNonBlocking as i64),
        ("cudaEventDisableTiming", cuda::cudaEventDisableTiming as i64),
        ("CUDA_ERROR_NOT_FOUND", cuda::CUresult::CUDA_ERROR_NOT_FOUND.0 as i64),
        ("sizeof CUdeviceptr", size_of::<cuda::CUdeviceptr>() as i64),
    ])
}
