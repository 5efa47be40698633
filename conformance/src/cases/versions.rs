//! Versions, and which functions each has.

use super::prelude::*;
use cuda_um_sys::{RuntimeVersion, Table};

pub(super) const CASES: &[Case] = cases! {
    "versions.driver-not-older" (driver_not_older):
        "The driver's version is at least that of the runtime, or of its major version.",
        sources::VERSION, &["cudaDriverGetVersion"];
    "versions.runtime" (runtime):
        "The runtime reports its version as 1000 times the major plus 10 times the minor version.",
        sources::VERSION, &["cudaRuntimeGetVersion"];
    "versions.functions" (functions):
        "A version has exactly the functions that were added up to this version, with the signatures of this version.",
        sources::UNIFIED, &[];
};

fn driver_not_older(c: &Cuda<'_>) -> Verdict {
    let (code, driver) = c.driver_version();
    c.succeeds("cudaDriverGetVersion", code)?;
    let (code, runtime) = c.runtime_version();
    c.ok("cudaRuntimeGetVersion", code)?;
    // Within a major version newer runtimes work with older drivers.
    c.holds("driver >= runtime", driver / 1000 >= runtime / 1000)
}

fn runtime(c: &Cuda<'_>) -> Verdict {
    let (code, version) = c.runtime_version();
    c.succeeds("cudaRuntimeGetVersion", code)?;
    let told = RuntimeVersion::from_number(version as u32);
    c.is("the table's version", c.machine.table.version(), told)
}

fn functions(c: &Cuda<'_>) -> Verdict {
    let table = &c.machine.table;
    let version = table.version();
    let before_13 = version < RuntimeVersion::new(13, 0);
    macro_rules! found {
        ($($name:ident)*) => {
            [$((stringify!($name), table.$name.is_some())),*]
        };
    }
    let optional = found!(
        cudaStreamGetDevice
        cudaMemPrefetchBatchAsync
        cudaMemDiscardBatchAsync
        cudaMemDiscardAndPrefetchBatchAsync
        cudaMemGetDefaultMemPool
        cudaMemGetMemPool
        cudaMemSetMemPool
        cudaMemGetLocationInfo
        cudaMemPrefetchAsync_v13
        cudaMemAdvise_v13
        cudaMemcpyBatchAsync_v13
        cudaStreamBeginCapture
        cudaStreamEndCapture
        cudaStreamIsCapturing
        cudaThreadExchangeStreamCaptureMode
        cudaEventRecordWithFlags
        cudaGraphDestroy
        cudaGraphGetNodes
        cudaGraphNodeGetType
        cudaGraphInstantiateWithFlags
        cudaGraphLaunch
        cudaGraphExecDestroy
        cudaGraphExecMemcpyNodeSetParams1D
        cudaGraphExecMemsetNodeSetParams
        cudaStreamGetCaptureInfo_v3
        cudaGraphExecUpdate_v13
    );
    for (name, found) in optional {
        let Some(since) = Table::available_since(name) else {
            return fail(format!("{name} is not known as optional"));
        };
        c.is(name, found, version >= since)?;
    }
    let old = found!(cudaMemPrefetchAsync_v11 cudaMemAdvise_v11 cudaStreamGetCaptureInfo_v2);
    for (name, found) in old {
        c.is(name, found, before_13)?;
    }
    let batch = RuntimeVersion::new(12, 8);
    c.is(
        "cudaMemcpyBatchAsync_v12",
        table.cudaMemcpyBatchAsync_v12.is_some(),
        before_13 && version >= batch,
    )
}
