//! The signature of each symbol depends on the version; tested with the symbol sets of five libraries.
#![allow(unsafe_code, reason = "fills tables by hand")]

use cuda_um_sys::{LoadError, RuntimeVersion, Table, cudaDriverEntryPointQueryResult, cudaError};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The symbols that a fake library exports in addition to those of every version, and the behaviour of its
/// `cudaRuntimeGetVersion`.
struct Library {
    soname_major: Option<u32>,
    tells: unsafe extern "C" fn(*mut c_int) -> cudaError,
    late: &'static [&'static str],
    lacks: &'static str,
}

const SYMBOLS_11_8: &[&str] = &[
    "cudaMemPrefetchAsync",
    "cudaMemAdvise",
    "cudaLaunchKernelExC",
    "cudaStreamGetCaptureInfo_v2",
    "cudaGraphExecUpdate",
];
const SYMBOLS_12_0: &[&str] = &[
    "cudaMemPrefetchAsync",
    "cudaMemAdvise",
    "cudaGraphInstantiateWithParams",
    "cudaStreamGetCaptureInfo_v2",
    "cudaGraphExecUpdate",
];
const SYMBOLS_12_2: &[&str] = &[
    "cudaMemPrefetchAsync",
    "cudaMemAdvise",
    "cudaMemPrefetchAsync_v2",
    "cudaMemAdvise_v2",
    "cudaGraphInstantiateWithParams",
    "cudaStreamGetCaptureInfo_v2",
    "cudaGraphExecUpdate",
];
const SYMBOLS_12_9: &[&str] = &[
    "cudaMemPrefetchAsync",
    "cudaMemAdvise",
    "cudaMemPrefetchAsync_v2",
    "cudaMemAdvise_v2",
    "cudaMemcpyBatchAsync",
    "cudaStreamGetDevice",
    "cudaStreamGetCaptureInfo",
    "cudaStreamGetCaptureInfo_v2",
    "cudaStreamGetCaptureInfo_v3",
    "cudaGraphExecUpdate",
    "cudaStreamUpdateCaptureDependencies",
    "cudaStreamUpdateCaptureDependencies_v2",
    "cudaGraphAddNode",
    "cudaGraphAddNode_v2",
];
const SYMBOLS_13_0: &[&str] = &[
    "cudaMemPrefetchAsync",
    "cudaMemAdvise",
    "cudaMemcpyBatchAsync",
    "cudaStreamGetDevice",
    "cudaMemPrefetchBatchAsync",
    "cudaMemDiscardBatchAsync",
    "cudaMemDiscardAndPrefetchBatchAsync",
    "cudaMemGetDefaultMemPool",
    "cudaMemGetMemPool",
    "cudaMemSetMemPool",
    "cudaStreamGetCaptureInfo",
    "cudaGraphExecUpdate",
    "cudaStreamUpdateCaptureDependencies",
    "cudaGraphAddNode",
];

macro_rules! tells {
    ($name:ident, $number:literal) => {
        unsafe extern "C" fn $name(number: *mut c_int) -> cudaError {
            // SAFETY: the caller's place is valid for writes.
            unsafe { number.write($number) };
            cudaError::cudaSuccess
        }
    };
}
tells!(tells_11080, 11080);
tells!(tells_12000, 12000);
tells!(tells_12020, 12020);
tells!(tells_12090, 12090);
tells!(tells_13000, 13000);
tells!(tells_11070, 11070);
tells!(tells_14000, 14000);
// The behaviour of CUDA 12 and 13 without a driver.
tells!(tells_nothing, 0);
/// The behaviour of CUDA 11.8 without a driver.
unsafe extern "C" fn fails(_number: *mut c_int) -> cudaError {
    cudaError::cudaErrorInsufficientDriver
}
unsafe extern "C" fn last_error() -> cudaError {
    cudaError::cudaSuccess
}
static DRIVER_IS_THERE: AtomicBool = AtomicBool::new(false);

/// `cudaGetDriverEntryPoint` on a machine that gets a driver later.
unsafe extern "C" fn entry_point(
    symbol: *const c_char,
    address: *mut *mut c_void,
    _flags: c_ulonglong,
    _status: *mut cudaDriverEntryPointQueryResult,
) -> cudaError {
    if !DRIVER_IS_THERE.load(Ordering::Relaxed) {
        return cudaError::cudaErrorInsufficientDriver;
    }
    assert!(!symbol.is_null());
    // SAFETY: the caller's place is valid for writes.
    unsafe { address.write(never_called as *mut c_void) };
    cudaError::cudaSuccess
}

/// Represents every function that filling a table does not call.
unsafe extern "C" fn never_called() -> cudaError {
    unreachable!("filling a table calls only cudaRuntimeGetVersion and cudaGetLastError")
}

impl Library {
    fn table(&self) -> Result<Table, LoadError> {
        let late: BTreeSet<&str> = self.late.iter().copied().collect();
        let tells = self.tells;
        let mut resolve = |name: &CStr| -> *const c_void {
            let name = name.to_str().unwrap();
            // Fields for several signatures have names that are not symbols, and the `_v2` symbols are not fields.
            let always = Table::available_since(name).is_none()
                && !name.ends_with("_v2")
                && !SYMBOLS_11_8.contains(&name)
                && ![
                    "cudaMemcpyBatchAsync",
                    "cudaStreamGetCaptureInfo",
                    "cudaStreamGetCaptureInfo_v3",
                    "cudaStreamUpdateCaptureDependencies",
                    "cudaGraphAddNode",
                    "cudaGraphInstantiateWithParams",
                    "cudaGetDriverEntryPointByVersion",
                ]
                .contains(&name);
            match name {
                name if name == self.lacks => std::ptr::null(),
                "cudaRuntimeGetVersion" => tells as *const c_void,
                "cudaGetDriverEntryPoint" => entry_point as *const c_void,
                "cudaGetLastError" => last_error as *const c_void,
                name if always || late.contains(name) => never_called as *const c_void,
                _ => std::ptr::null(),
            }
        };
        // SAFETY: only the two functions with their real signatures are called.
        unsafe { Table::from_symbols(Arc::new(()), self.soname_major, &mut resolve) }
    }
}

/// True for each that is present: prefetch v11, prefetch v13, advise v11, advise v13, batch copy v12, batch copy v13, batch
/// prefetch, information of a capture v2 and v3, update of a graph v11 and v13, dependencies of a capture, node of a graph.
fn chosen(table: &Table) -> [bool; 13] {
    [
        table.cudaMemPrefetchAsync_v11.is_some(),
        table.cudaMemPrefetchAsync_v13.is_some(),
        table.cudaMemAdvise_v11.is_some(),
        table.cudaMemAdvise_v13.is_some(),
        table.cudaMemcpyBatchAsync_v12.is_some(),
        table.cudaMemcpyBatchAsync_v13.is_some(),
        table.cudaMemPrefetchBatchAsync.is_some(),
        table.cudaStreamGetCaptureInfo_v2.is_some(),
        table.cudaStreamGetCaptureInfo_v3.is_some(),
        table.cudaGraphExecUpdate_v11.is_some(),
        table.cudaGraphExecUpdate_v13.is_some(),
        table.cudaStreamUpdateCaptureDependencies_v13.is_some(),
        table.cudaGraphAddNode_v13.is_some(),
    ]
}

/// The elements of [`chosen`]: `+` for a function that is present.
const fn present(marks: &[u8; 13]) -> [bool; 13] {
    let mut present = [false; 13];
    let mut index = 0;
    while index < marks.len() {
        present[index] = marks[index] == b'+';
        index += 1;
    }
    present
}

const OLDEST: [bool; 13] = present(b"+-+----+-+---");
const OLD: [bool; 13] = present(b"+-+----+--+--");
const BOTH: [bool; 13] = present(b"++++---+--+--");
const BOTH_AND_BATCH: [bool; 13] = present(b"+++++--++-+++");
const NEW: [bool; 13] = present(b"-+-+-++-+-+++");

#[test]
fn the_version_told_decides() {
    type Tells = unsafe extern "C" fn(*mut c_int) -> cudaError;
    let cases: [(Tells, _, _, _); 5] = [
        (tells_11080, SYMBOLS_11_8, (11, 8), OLDEST),
        (tells_12000, SYMBOLS_12_0, (12, 0), OLD),
        (tells_12020, SYMBOLS_12_2, (12, 2), BOTH),
        (tells_12090, SYMBOLS_12_9, (12, 9), BOTH_AND_BATCH),
        (tells_13000, SYMBOLS_13_0, (13, 0), NEW),
    ];
    for (tells, late, (major, minor), expected) in cases {
        // The name of the file is ignored if the library reports a version.
        for soname_major in [None, Some(11), Some(12), Some(13)] {
            let table = Library {
                soname_major,
                tells,
                late,
                lacks: "",
            }
            .table()
            .unwrap();
            assert_eq!(table.version(), RuntimeVersion::new(major, minor));
            assert_eq!(chosen(&table), expected, "{major}.{minor}");
        }
    }
}

#[test]
fn without_a_driver_the_name_and_the_symbols_decide() {
    type Tells = unsafe extern "C" fn(*mut c_int) -> cudaError;
    let cases: [(Tells, _, _, _, _); 5] = [
        (fails, SYMBOLS_11_8, 11, (11, 8), OLDEST),
        (tells_nothing, SYMBOLS_12_0, 12, (12, 0), OLD),
        (tells_nothing, SYMBOLS_12_2, 12, (12, 2), BOTH),
        (tells_nothing, SYMBOLS_12_9, 12, (12, 8), BOTH_AND_BATCH),
        (tells_nothing, SYMBOLS_13_0, 13, (13, 0), NEW),
    ];
    for (tells, late, soname_major, (major, minor), expected) in cases {
        for soname_major in [None, Some(soname_major)] {
            let table = Library {
                soname_major,
                tells,
                late,
                lacks: "",
            }
            .table()
            .unwrap();
            assert_eq!(table.version(), RuntimeVersion::new(major, minor));
            assert_eq!(chosen(&table), expected, "{major}.{minor}");
        }
    }
}

/// A missing `_v2` symbol does not mean an old library: the plain name of a 13 must never be called with a device ordinal.
#[test]
fn thirteen_without_its_batch_functions_is_still_new() {
    let late = &["cudaMemPrefetchAsync", "cudaMemAdvise"];
    let table = Library {
        soname_major: Some(13),
        tells: tells_nothing,
        late,
        lacks: "",
    }
    .table()
    .unwrap();
    assert_eq!(chosen(&table), present(b"-+-+---------"));
}

#[test]
fn a_missing_function_is_named_with_the_version() {
    let lacks = "cudaMallocFromPoolAsync";
    let error = Library {
        soname_major: None,
        tells: tells_12020,
        late: SYMBOLS_12_2,
        lacks,
    }
    .table()
    .unwrap_err();
    assert_eq!(
        error,
        LoadError::MissingSymbol {
            symbol: lacks.into(),
            version: Some(RuntimeVersion::new(12, 2))
        }
    );
    assert!(
        error.to_string().contains("cudaMallocFromPoolAsync"),
        "{error}"
    );
    assert!(error.to_string().contains("12.2"), "{error}");
}

#[test]
fn versions_with_unknown_signatures_are_refused() {
    type Tells = unsafe extern "C" fn(*mut c_int) -> cudaError;
    let cases: [(Tells, _, _); 2] = [(tells_11070, 11, 7), (tells_14000, 14, 0)];
    for (tells, major, minor) in cases {
        let error = Library {
            soname_major: None,
            tells,
            late: SYMBOLS_13_0,
            lacks: "",
        }
        .table()
        .unwrap_err();
        assert_eq!(
            error,
            LoadError::UnsupportedVersion {
                version: RuntimeVersion::new(major, minor)
            }
        );
    }
}

#[test]
fn what_tells_no_version_is_refused() {
    let late = &["cudaMemPrefetchAsync", "cudaMemAdvise"];
    let error = Library {
        soname_major: None,
        tells: tells_nothing,
        late,
        lacks: "",
    }
    .table()
    .unwrap_err();
    assert_eq!(error, LoadError::UnknownVersion);
    let lacks = "cudaRuntimeGetVersion";
    let error = Library {
        soname_major: Some(13),
        tells: tells_nothing,
        late,
        lacks,
    }
    .table()
    .unwrap_err();
    assert_eq!(error, LoadError::UnknownVersion);
}

#[test]
fn a_failure_to_find_the_driver_is_not_kept() {
    let table = Library {
        soname_major: None,
        tells: tells_13000,
        late: SYMBOLS_13_0,
        lacks: "",
    }
    .table()
    .unwrap();
    let error = table.driver().unwrap_err();
    assert!(
        matches!(error, LoadError::DriverFunction { code: 35, .. }),
        "{error}"
    );
    DRIVER_IS_THERE.store(true, Ordering::Relaxed);
    let driver: *const _ = table.driver().unwrap();
    assert!(
        std::ptr::eq(driver, table.driver().unwrap()),
        "looked up once"
    );
}
