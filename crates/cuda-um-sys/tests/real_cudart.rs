//! Opens NVIDIA's own libraries and checks the result of the loader. No GPU and no driver are needed. Of libraries for another architecture
//! it reads the symbols, and opens nothing.
//!
//! `CUDA_UM_TEST_CUDARTS` lists them: `version=path`, separated by commas. `cargo xtask real-cudart` fetches them and sets it.
#![allow(unsafe_code, reason = "calls CUDA")]

use cuda_um_sys::{LoadError, RuntimeVersion, Table, cudaError, load_from};
use object::{Architecture, Object, ObjectSymbol};
use std::collections::HashSet;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

fn main() {
    let Ok(libraries) = std::env::var("CUDA_UM_TEST_CUDARTS") else {
        println!(
            "real_cudart: skipped: CUDA_UM_TEST_CUDARTS is not set (cargo xtask real-cudart sets it)"
        );
        return;
    };
    let mut checked = 0;
    for library in libraries.split(',') {
        let (version, path) = library.split_once('=').expect("version=path");
        let (major, minor) = version.split_once('.').expect("major.minor");
        let version = RuntimeVersion::new(major.parse().unwrap(), minor.parse().unwrap());
        check(version, path);
        checked += 1;
    }
    println!("test result: ok. {checked} passed; 0 failed");
}

fn check(version: RuntimeVersion, path: &str) {
    let data = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file = object::File::parse(&*data).unwrap_or_else(|error| panic!("{path}: {error}"));
    let here = match std::env::consts::ARCH {
        "aarch64" => Architecture::Aarch64,
        _ => Architecture::X86_64,
    };
    let is_foreign = file.architecture() != here;
    let table = match is_foreign {
        true => by_symbols(&file, version.major).map(Arc::new),
        // SAFETY: NVIDIA's own library; the caller of the test passes the path.
        false => unsafe { load_from(path) },
    };
    let table = table.unwrap_or_else(|error| panic!("{path}: {error}"));
    let has = |minimum: (u32, u32)| version >= RuntimeVersion::new(minimum.0, minimum.1);
    let optional = [
        (
            "cudaMemPrefetchAsync_v11",
            table.cudaMemPrefetchAsync_v11.is_some(),
            version.major < 13,
        ),
        (
            "cudaMemAdvise_v11",
            table.cudaMemAdvise_v11.is_some(),
            version.major < 13,
        ),
        (
            "cudaMemPrefetchAsync_v13",
            table.cudaMemPrefetchAsync_v13.is_some(),
            has((12, 2)),
        ),
        (
            "cudaMemAdvise_v13",
            table.cudaMemAdvise_v13.is_some(),
            has((12, 2)),
        ),
        (
            "cudaMemcpyBatchAsync_v12",
            table.cudaMemcpyBatchAsync_v12.is_some(),
            has((12, 8)) && version.major == 12,
        ),
        (
            "cudaMemcpyBatchAsync_v13",
            table.cudaMemcpyBatchAsync_v13.is_some(),
            version.major >= 13,
        ),
        (
            "cudaMemPrefetchBatchAsync",
            table.cudaMemPrefetchBatchAsync.is_some(),
            has((13, 0)),
        ),
        (
            "cudaMemDiscardBatchAsync",
            table.cudaMemDiscardBatchAsync.is_some(),
            has((13, 0)),
        ),
        (
            "cudaMemDiscardAndPrefetchBatchAsync",
            table.cudaMemDiscardAndPrefetchBatchAsync.is_some(),
            has((13, 0)),
        ),
        (
            "cudaMemGetMemPool",
            table.cudaMemGetMemPool.is_some(),
            has((13, 0)),
        ),
        (
            "cudaMemGetLocationInfo",
            table.cudaMemGetLocationInfo.is_some(),
            has((13, 4)),
        ),
        (
            "cudaStreamGetCaptureInfo_v2",
            table.cudaStreamGetCaptureInfo_v2.is_some(),
            version.major < 13,
        ),
        (
            "cudaStreamGetCaptureInfo_v3",
            table.cudaStreamGetCaptureInfo_v3.is_some(),
            has((12, 3)),
        ),
        (
            "cudaGraphExecUpdate_v11",
            table.cudaGraphExecUpdate_v11.is_some(),
            version.major < 12,
        ),
        (
            "cudaGraphExecUpdate_v13",
            table.cudaGraphExecUpdate_v13.is_some(),
            has((12, 0)),
        ),
    ];
    macro_rules! always {
        ($($name:ident),*) => { [$((stringify!($name), table.$name.is_some(), true)),*] };
    }
    let graphs = always![
        cudaStreamBeginCapture,
        cudaStreamEndCapture,
        cudaStreamIsCapturing,
        cudaThreadExchangeStreamCaptureMode,
        cudaEventRecordWithFlags,
        cudaGraphDestroy,
        cudaGraphGetNodes,
        cudaGraphNodeGetType,
        cudaGraphInstantiateWithFlags,
        cudaGraphLaunch,
        cudaGraphExecDestroy,
        cudaGraphExecMemcpyNodeSetParams1D,
        cudaGraphExecMemsetNodeSetParams
    ];
    for (field, found, expected) in optional.into_iter().chain(graphs) {
        assert_eq!(found, expected, "{field} in {version} ({path})");
        let since = Table::available_since(field).unwrap_or_else(|| panic!("{field} is optional"));
        assert!(
            !found || version >= since,
            "{field} is said to come with {since}, {version} has it"
        );
    }
    // Without a driver the libraries do not report their version: then the symbols prove it.
    let proven = match (version.major, version.minor) {
        (12, 8..) => RuntimeVersion::new(12, 8),
        (12, 5..8) => RuntimeVersion::new(12, 5),
        (12, 2..5) => RuntimeVersion::new(12, 2),
        (13, 4..) => RuntimeVersion::new(13, 4),
        (13, 0..4) => RuntimeVersion::new(13, 0),
        _ => version,
    };
    assert!(
        [proven, version].contains(&table.version()),
        "{path} is {version}, and was taken for {}",
        table.version()
    );

    if !is_foreign {
        no_driver_is_an_error(&table, path);
    }
    println!(
        "CUDA {version} for {:?}: every symbol as expected, taken for {} ({path})",
        file.architecture(),
        table.version()
    );
}

/// The table of a library that cannot be opened here. Only its version may be asked for, as of a library without a driver.
fn by_symbols(file: &object::File<'_>, major: u32) -> Result<Table, LoadError> {
    extern "C" fn get_version(_: *mut c_int) -> cudaError {
        cudaError::cudaErrorInsufficientDriver
    }
    extern "C" fn other() -> cudaError {
        cudaError::cudaErrorInsufficientDriver
    }
    let exported = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition());
    let names: HashSet<&[u8]> = exported
        .map(|symbol| symbol.name_bytes().unwrap())
        .collect();
    let mut resolve = |name: &CStr| match name {
        _ if !names.contains(name.to_bytes()) => std::ptr::null(),
        name if name == c"cudaRuntimeGetVersion" => get_version as *const c_void,
        _ => other as *const c_void,
    };
    // SAFETY: the table calls only `cudaRuntimeGetVersion` and `cudaGetLastError`, which have the signatures of these functions.
    unsafe { Table::from_symbols(Arc::new(()), Some(major), &mut resolve) }
}

fn no_driver_is_an_error(table: &Table, path: &str) {
    let mut count = -1;
    // SAFETY: the place is valid for the call; clearing the error has no preconditions.
    let code = unsafe {
        let code = (table.cudaGetDeviceCount)(&mut count);
        (table.cudaGetLastError)();
        code
    };
    if code == cudaError::cudaSuccess {
        println!(
            "{path}: this machine has a driver and {count} devices, so the case without one was not seen"
        );
        return;
    }
    // `cudart64_13.dll` of 13.0, under Wine.
    if cfg!(windows) && code == cudaError::cudaErrorNotSupported {
        return;
    }
    let expected = [
        cudaError::cudaErrorInsufficientDriver,
        cudaError::cudaErrorNoDevice,
    ];
    assert!(
        expected.contains(&code),
        "{path}: cudaGetDeviceCount gave {}",
        code.0
    );
    if code == cudaError::cudaErrorInsufficientDriver {
        let error = table.driver().expect_err("no driver, no driver functions");
        let code = cudaError::cudaErrorInsufficientDriver.0;
        assert!(
            matches!(error, LoadError::DriverFunction { code: found, .. } if found == code),
            "{path}: {error}"
        );
    }
}
