//! Versions, and which functions each has.

use super::*;
use cuda_um_sys::{RuntimeVersion, Table};

cases! {
    /// The driver's version is at least that of the runtime, or of its major version.
    "versions.driver-not-older" VERSION [cudaDriverGetVersion] |c| {
        let driver = c.succeeds("cudaDriverGetVersion", c.driver_version());
        let runtime = ok(c.runtime_version());
        // Within a major version newer runtimes work with older drivers.
        c.holds("driver >= runtime", driver / 1000 >= runtime / 1000);
    }
    /// The runtime reports its version as 1000 times the major plus 10 times the minor version.
    "versions.runtime" VERSION [cudaRuntimeGetVersion] |c| {
        let version = c.succeeds("cudaRuntimeGetVersion", c.runtime_version());
        let told = RuntimeVersion::from_number(version as u32);
        c.is("the table's version", c.machine.table.version(), told);
    }
    /// A version has exactly the functions that were added up to this version, with the signatures of this version.
    "versions.functions" UNIFIED [] |c| {
        let table = &*c.machine.table;
        let version = table.version();
        let before_13 = version < RuntimeVersion::new(13, 0);
        for (name, found) in optional(table) {
            let since = Table::available_since(name).expect("it is known as optional");
            c.is(name, found, version >= since);
        }
        for (name, found) in old(table) {
            c.is(name, found, before_13);
        }
        let batch = before_13 && version >= RuntimeVersion::new(12, 8);
        c.is("cudaMemcpyBatchAsync_v12", table.cudaMemcpyBatchAsync_v12.is_some(), batch);
    }
}

/// A function that lists names of functions, and if a table has them.
macro_rules! found {
    ($found:ident: $($name:ident)*) => {
        fn $found(table: &Table) -> Vec<(&'static str, bool)> {
            vec![$((stringify!($name), table.$name.is_some())),*]
        }
    };
}

found! { old: cudaMemPrefetchAsync_v11 cudaMemAdvise_v11 cudaStreamGetCaptureInfo_v2 }
found! { optional:
    cudaStreamGetDevice cudaMemPrefetchBatchAsync cudaMemDiscardBatchAsync cudaMemDiscardAndPrefetchBatchAsync
    cudaMemGetDefaultMemPool cudaMemGetMemPool cudaMemSetMemPool cudaMemGetLocationInfo
    cudaMemPrefetchAsync_v13 cudaMemAdvise_v13 cudaMemcpyBatchAsync_v13
    cudaStreamBeginCapture cudaStreamEndCapture cudaStreamIsCapturing cudaThreadExchangeStreamCaptureMode cudaEventRecordWithFlags
    cudaGraphDestroy cudaGraphGetNodes cudaGraphNodeGetType cudaGraphInstantiateWithFlags cudaGraphLaunch cudaGraphExecDestroy
    cudaGraphExecMemcpyNodeSetParams1D cudaGraphExecMemsetNodeSetParams cudaStreamGetCaptureInfo_v3 cudaGraphExecUpdate_v13
}
