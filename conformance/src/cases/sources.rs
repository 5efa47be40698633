//! The sources of the rules.

macro_rules! pages {
    ($($name:ident $page:literal;)*) => { $(pub(super) const $name: &str = concat!("https://docs.nvidia.com/cuda/", $page);)* };
}

pages! {
    MEMORY "cuda-runtime-api/group__CUDART__MEMORY.html";
    UNIFIED "cuda-runtime-api/group__CUDART__UNIFIED.html";
    POOLS "cuda-runtime-api/group__CUDART__MEMORY__POOLS.html";
    STREAM "cuda-runtime-api/group__CUDART__STREAM.html";
    STREAM_SYNC "cuda-runtime-api/stream-sync-behavior.html";
    API_SYNC "cuda-runtime-api/api-sync-behavior.html";
    EVENT "cuda-runtime-api/group__CUDART__EVENT.html";
    ERROR "cuda-runtime-api/group__CUDART__ERROR.html";
    TYPES "cuda-runtime-api/group__CUDART__TYPES.html";
    DEVICE "cuda-runtime-api/group__CUDART__DEVICE.html";
    PEER "cuda-runtime-api/group__CUDART__PEER.html";
    EXECUTION "cuda-runtime-api/group__CUDART__EXECUTION.html";
    VERSION "cuda-runtime-api/group__CUDART____VERSION.html";
    DRIVER_ERROR "cuda-driver-api/group__CUDA__ERROR.html";
    DRIVER_DEVICE "cuda-driver-api/group__CUDA__DEVICE.html";
    GRAPH "cuda-runtime-api/group__CUDART__GRAPH.html";
    DRIVER_GRAPH "cuda-driver-api/group__CUDA__GRAPH.html";
    DRIVER_CONTEXT "cuda-driver-api/group__CUDA__CTX.html";
    MODULE "cuda-driver-api/group__CUDA__MODULE.html";
    EXEC "cuda-driver-api/group__CUDA__EXEC.html";
    OCCUPANCY "cuda-driver-api/group__CUDA__OCCUPANCY.html";
    MEMOP "cuda-driver-api/group__CUDA__MEMOP.html";
    DRIVER_MEMORY "cuda-driver-api/group__CUDA__MEM.html";
    GUIDE_MANAGED "cuda-c-programming-guide/index.html#unified-memory-programming";
    GUIDE_SYSTEM "cuda-programming-guide/04-special-topics/unified-memory.html#unified-memory-on-devices-with-full-cuda-unified-memory-support";
    GUIDE_COHERENCE "cuda-programming-guide/04-special-topics/unified-memory.html#cpu-and-gpu-page-tables-hardware-coherency-vs-software-coherency";
    GUIDE_DEVICES "cuda-c-programming-guide/index.html#multi-device-system";
    GUIDE_GRAPHS "cuda-c-programming-guide/index.html#creating-a-graph-using-stream-capture";
    GUIDE_POOLS "cuda-c-programming-guide/index.html#stream-ordered-memory-allocator";
    GUIDE_ALIGNMENT "cuda-c-programming-guide/index.html#device-memory-accesses";
    GUIDE_COMPUTE_CAPABILITIES "cuda-c-programming-guide/index.html#compute-capabilities";
}

/// Measured, but not documented: the recorded results of an H200, without the simulator.
pub(super) const MEASURED: &str = "conformance/records/h200-cuda-13.0.jsonl";
