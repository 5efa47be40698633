//! The covered part of CUDA, and the versions that have it.

use super::major::Major;

/// The first version that has a function.
#[derive(Clone, Copy)]
pub enum Since {
    /// Every version from 11.8 on has it: a library without it is refused.
    Always,
    /// It exists from this version on: an `Option` in the table.
    Version(u32, u32),
}

use Since::{Always, Version};

/// Functions of the runtime that kept one signature.
pub const RUNTIME: &[(&str, Since)] = &[
    ("cudaGetLastError", Always),
    ("cudaPeekAtLastError", Always),
    ("cudaGetErrorName", Always),
    ("cudaGetErrorString", Always),
    ("cudaRuntimeGetVersion", Always),
    ("cudaDriverGetVersion", Always),
    ("cudaGetDriverEntryPoint", Always),
    ("cudaGetDevice", Always),
    ("cudaSetDevice", Always),
    ("cudaGetDeviceCount", Always),
    ("cudaDeviceGetAttribute", Always),
    ("cudaDeviceGetPCIBusId", Always),
    ("cudaDeviceGetStreamPriorityRange", Always),
    ("cudaDeviceSynchronize", Always),
    ("cudaDeviceCanAccessPeer", Always),
    ("cudaDeviceEnablePeerAccess", Always),
    ("cudaDeviceDisablePeerAccess", Always),
    ("cudaMemGetInfo", Always),
    ("cudaMallocManaged", Always),
    ("cudaMalloc", Always),
    ("cudaFree", Always),
    ("cudaHostAlloc", Always),
    ("cudaFreeHost", Always),
    ("cudaHostGetDevicePointer", Always),
    ("cudaHostGetFlags", Always),
    ("cudaHostRegister", Always),
    ("cudaHostUnregister", Always),
    ("cudaMemcpy", Always),
    ("cudaMemcpyAsync", Always),
    ("cudaMemcpyPeer", Always),
    ("cudaMemcpyPeerAsync", Always),
    ("cudaMemset", Always),
    ("cudaMemsetAsync", Always),
    ("cudaMemRangeGetAttribute", Always),
    ("cudaMemRangeGetAttributes", Always),
    ("cudaPointerGetAttributes", Always),
    ("cudaStreamCreateWithFlags", Always),
    ("cudaStreamCreateWithPriority", Always),
    ("cudaStreamDestroy", Always),
    ("cudaStreamSynchronize", Always),
    ("cudaStreamQuery", Always),
    ("cudaStreamWaitEvent", Always),
    ("cudaStreamAttachMemAsync", Always),
    ("cudaLaunchHostFunc", Always),
    ("cudaEventCreateWithFlags", Always),
    ("cudaEventDestroy", Always),
    ("cudaEventRecord", Always),
    ("cudaEventQuery", Always),
    ("cudaEventSynchronize", Always),
    ("cudaEventElapsedTime", Always),
    ("cudaMemPoolCreate", Always),
    ("cudaMemPoolDestroy", Always),
    ("cudaMemPoolTrimTo", Always),
    ("cudaMemPoolSetAttribute", Always),
    ("cudaMemPoolGetAttribute", Always),
    ("cudaMemPoolSetAccess", Always),
    ("cudaDeviceGetDefaultMemPool", Always),
    ("cudaDeviceGetMemPool", Always),
    ("cudaDeviceSetMemPool", Always),
    ("cudaMallocAsync", Always),
    ("cudaMallocFromPoolAsync", Always),
    ("cudaFreeAsync", Always),
    // Every supported version has it; a table that is filled by other code may lack it.
    ("cudaDeviceGetP2PAttribute", Version(11, 8)),
    ("cudaStreamGetDevice", Version(12, 8)),
    ("cudaMemPrefetchBatchAsync", Version(13, 0)),
    ("cudaMemDiscardBatchAsync", Version(13, 0)),
    ("cudaMemDiscardAndPrefetchBatchAsync", Version(13, 0)),
    ("cudaMemGetDefaultMemPool", Version(13, 0)),
    ("cudaMemGetMemPool", Version(13, 0)),
    ("cudaMemSetMemPool", Version(13, 0)),
    ("cudaMemGetLocationInfo", Version(13, 4)),
    // Graphs. Every supported version has them; a table that is filled by other code may lack them.
    ("cudaStreamBeginCapture", Version(11, 8)),
    ("cudaStreamEndCapture", Version(11, 8)),
    ("cudaStreamIsCapturing", Version(11, 8)),
    ("cudaStreamGetCaptureInfo_v2", Version(11, 8)),
    ("cudaThreadExchangeStreamCaptureMode", Version(11, 8)),
    ("cudaEventRecordWithFlags", Version(11, 8)),
    ("cudaGraphDestroy", Version(11, 8)),
    ("cudaGraphGetNodes", Version(11, 8)),
    ("cudaGraphNodeGetType", Version(11, 8)),
    ("cudaGraphInstantiateWithFlags", Version(11, 8)),
    ("cudaGraphLaunch", Version(11, 8)),
    ("cudaGraphExecDestroy", Version(11, 8)),
    ("cudaGraphExecMemcpyNodeSetParams1D", Version(11, 8)),
    ("cudaGraphExecMemsetNodeSetParams", Version(11, 8)),
    ("cudaGraphConditionalHandleCreate", Version(12, 3)),
    ("cudaStreamBeginCaptureToGraph", Version(12, 3)),
];

/// One of several signatures of a function: a separate field, always an `Option`.
pub struct Variant {
    pub field: &'static str,
    /// The headers that declare the signature.
    pub major: Major,
    /// The C name in these headers.
    pub function: &'static str,
    /// The major version that changed the signature of the plain name.
    pub changed: u32,
    /// The symbol with this signature in libraries before that version.
    pub before: Option<&'static str>,
    /// The symbol with this signature from that version on.
    pub from: Option<&'static str>,
    /// The versions that have it, as text.
    pub versions: &'static str,
    pub since: (u32, u32),
}

/// Functions with several signatures. In 13 the plain names have the `_v2` signatures of 12.
pub const VARIANTS: &[Variant] = &[
    Variant {
        field: "cudaMemPrefetchAsync_v11",
        major: Major::V11,
        function: "cudaMemPrefetchAsync",
        changed: 13,
        before: Some("cudaMemPrefetchAsync"),
        from: None,
        versions: "before CUDA 13: the destination is a device ordinal",
        since: (11, 0),
    },
    Variant {
        field: "cudaMemPrefetchAsync_v13",
        major: Major::V13,
        function: "cudaMemPrefetchAsync",
        changed: 13,
        before: Some("cudaMemPrefetchAsync_v2"),
        from: Some("cudaMemPrefetchAsync"),
        versions: "from CUDA 12.2 on (`cudaMemPrefetchAsync_v2` before 13): the destination is a `cudaMemLocation`",
        since: (12, 2),
    },
    Variant {
        field: "cudaMemAdvise_v11",
        major: Major::V11,
        function: "cudaMemAdvise",
        changed: 13,
        before: Some("cudaMemAdvise"),
        from: None,
        versions: "before CUDA 13: the location is a device ordinal",
        since: (11, 0),
    },
    Variant {
        field: "cudaMemAdvise_v13",
        major: Major::V13,
        function: "cudaMemAdvise",
        changed: 13,
        before: Some("cudaMemAdvise_v2"),
        from: Some("cudaMemAdvise"),
        versions: "from CUDA 12.2 on (`cudaMemAdvise_v2` before 13): the location is a `cudaMemLocation`",
        since: (12, 2),
    },
    Variant {
        field: "cudaMemcpyBatchAsync_v12",
        major: Major::V12,
        function: "cudaMemcpyBatchAsync",
        changed: 13,
        before: Some("cudaMemcpyBatchAsync"),
        from: None,
        versions: "CUDA 12.8 and 12.9: with the index of the failing copy",
        since: (12, 8),
    },
    Variant {
        field: "cudaMemcpyBatchAsync_v13",
        major: Major::V13,
        function: "cudaMemcpyBatchAsync",
        changed: 13,
        before: None,
        from: Some("cudaMemcpyBatchAsync"),
        versions: "from CUDA 13.0 on: without the index of the failing copy",
        since: (13, 0),
    },
    Variant {
        field: "cudaStreamGetCaptureInfo_v3",
        major: Major::V13,
        function: "cudaStreamGetCaptureInfo",
        changed: 13,
        before: Some("cudaStreamGetCaptureInfo_v3"),
        from: Some("cudaStreamGetCaptureInfo"),
        versions: "from CUDA 12.3 on (`cudaStreamGetCaptureInfo_v3` before 13): with the data of edges",
        since: (12, 3),
    },
    Variant {
        field: "cudaStreamUpdateCaptureDependencies_v13",
        major: Major::V13,
        function: "cudaStreamUpdateCaptureDependencies",
        changed: 13,
        before: Some("cudaStreamUpdateCaptureDependencies_v2"),
        from: Some("cudaStreamUpdateCaptureDependencies"),
        versions: "from CUDA 12.3 on (`cudaStreamUpdateCaptureDependencies_v2` before 13): with the data of edges",
        since: (12, 3),
    },
    Variant {
        field: "cudaGraphAddNode_v13",
        major: Major::V13,
        function: "cudaGraphAddNode",
        changed: 13,
        before: Some("cudaGraphAddNode_v2"),
        from: Some("cudaGraphAddNode"),
        versions: "from CUDA 12.3 on (`cudaGraphAddNode_v2` before 13): with the data of edges",
        since: (12, 3),
    },
    Variant {
        field: "cudaGraphExecUpdate_v11",
        major: Major::V11,
        function: "cudaGraphExecUpdate",
        changed: 12,
        before: Some("cudaGraphExecUpdate"),
        from: None,
        versions: "before CUDA 12: the node and the result are separate arguments",
        since: (11, 0),
    },
    Variant {
        field: "cudaGraphExecUpdate_v13",
        major: Major::V13,
        function: "cudaGraphExecUpdate",
        changed: 12,
        before: None,
        from: Some("cudaGraphExecUpdate"),
        versions: "from CUDA 12.0 on: the nodes and the result are a `cudaGraphExecUpdateResultInfo`",
        since: (12, 0),
    },
];

/// Functions of the driver; `cudaGetDriverEntryPoint` returns them.
pub const DRIVER: &[(&str, Since)] = &[
    ("cuDeviceGet", Since::Always),
    ("cuDeviceGetName", Since::Always),
    ("cuGetErrorName", Since::Always),
    ("cuGetErrorString", Since::Always),
    ("cuModuleLoadData", Since::Always),
    ("cuModuleLoadDataEx", Since::Always),
    ("cuModuleUnload", Since::Always),
    ("cuModuleGetFunction", Since::Always),
    ("cuFuncGetAttribute", Since::Always),
    ("cuFuncGetParamInfo", Since::Version(12, 4)),
    ("cuFuncSetAttribute", Since::Always),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessor", Since::Always),
    ("cuLaunchKernel", Since::Always),
    ("cuMemsetD8Async", Since::Always),
    ("cuMemsetD16Async", Since::Always),
    ("cuMemsetD32Async", Since::Always),
    ("cuPointerGetAttribute", Since::Always),
    ("cuStreamWriteValue32", Since::Version(12, 0)),
    // From 12.0 on this is `cuGraphExecKernelNodeSetParams_v2`; see `NEWEST_SERVES`.
    ("cuGraphExecKernelNodeSetParams", Since::Version(11, 8)),
];

/// Types that no covered function names, because the function takes `void *` or an integer.
const TYPES: &[&str] = &[
    "cudaMemoryType",
    "cudaMemLocationType",
    "cudaMemPoolAttr",
    "cudaMemAllocationType",
    "CUDA_KERNEL_NODE_PARAMS",
    "cudaConditionalNodeParams",
];

/// `cudaGraphNodeParams` is a union of the parameters of all kinds of nodes. Only [one of them](TYPES) is used, so a function takes
/// `*mut c_void` in its place, and the types that only the others name are left out: patterns.
pub const UNTYPED: &[&str] = &[
    "cudaGraphNodeParams.*",
    "cuda(Kernel|Host|Memset|MemAlloc)(Node)?ParamsV2",
    "cuda(Memcpy|MemFree|ChildGraph|EventRecord|EventWait)NodeParams",
    "cudaMemcpy3DParms|cudaExtent|cudaPos|cudaPitchedPtr|cudaArray|cudaArray_t|dim3",
    "cudaGraphChildGraphNodeOwnership",
    "(cuda|CU)[eE]xternalSemaphore.*",
];

/// Macros that are flags.
const CONSTANTS: &[&str] = &[
    "cudaHostAlloc.*",
    "cudaHostRegister.*",
    "cudaMemAttach.*",
    "cudaStreamDefault",
    "cudaStreamNonBlocking",
    "cudaEventDefault",
    "cudaEventBlockingSync",
    "cudaEventDisableTiming",
    "cudaEventRecord.*",
    "cudaEventWait.*",
];

/// Items that differ between versions; the newest form is used for all.
pub const NEWEST_SERVES: &[&str] = &[
    // The older libraries write a prefix of it.
    "cudaPointerAttributes",
    // The size is the same; fields that were added later are zero for the older libraries.
    "cudaMemPoolProps",
    // It has three arguments in 11.8: a fourth one is ignored.
    "PFN_cudaGetDriverEntryPoint",
    // The older form is a prefix of it; the fields that were added are not read if `func` is set.
    "CUDA_KERNEL_NODE_PARAMS",
];

/// Items that differ between versions; the oldest form is used for all.
pub const OLDEST_SERVES: &[&str] = &[
    // From 13.4 on `id` is the first member of a union; size and offsets are the same.
    "cudaMemLocation",
];

/// Constants with the meaning "one more than the last": left out, because they change with every version.
pub const END_MARKERS: &[&str] = &[
    "cudaDeviceAttr::cudaDevAttrMax",
    "CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX",
    "CUjit_option_enum::CU_JIT_NUM_OPTIONS",
    "cudaGraphNodeType::cudaGraphNodeTypeCount",
];

/// The request to bindgen.
pub struct Covered {
    pub functions: Vec<&'static str>,
    pub types: Vec<&'static str>,
    pub constants: Vec<&'static str>,
}

/// The request for the headers. A name that a version lacks is not an error here.
pub fn covered() -> Covered {
    let mut functions: Vec<_> = RUNTIME.iter().map(|(name, _)| *name).collect();
    functions.extend(VARIANTS.iter().map(|variant| variant.function));
    functions.extend(VARIANTS.iter().filter_map(|variant| variant.before));
    functions.extend(DRIVER.iter().map(|(name, _)| *name));
    functions.sort_unstable();
    functions.dedup();
    Covered {
        functions,
        types: TYPES.to_vec(),
        constants: CONSTANTS.to_vec(),
    }
}
