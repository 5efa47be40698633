//! The sources of the rules.

pub(super) const MEMORY: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html";
pub(super) const UNIFIED: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html";
pub(super) const POOLS: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY__POOLS.html";
pub(super) const STREAM: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html";
pub(super) const STREAM_SYNC: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/stream-sync-behavior.html";
pub(super) const API_SYNC: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html";
pub(super) const EVENT: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html";
pub(super) const ERROR: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__ERROR.html";
pub(super) const TYPES: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html";
pub(super) const DEVICE: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html";
pub(super) const PEER: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__PEER.html";
pub(super) const EXECUTION: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EXECUTION.html";
pub(super) const VERSION: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART____VERSION.html";
pub(super) const DRIVER_ERROR: &str =
    "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__ERROR.html";
pub(super) const DRIVER_DEVICE: &str =
    "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html";
pub(super) const GRAPH: &str =
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html";
pub(super) const DRIVER_GRAPH: &str =
    "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html";
pub(super) const MODULE: &str =
    "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html";
pub(super) const EXEC: &str = "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html";
pub(super) const OCCUPANCY: &str =
    "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__OCCUPANCY.html";
pub(super) const MEMOP: &str =
    "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEMOP.html";
pub(super) const DRIVER_MEMORY: &str =
    "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html";
pub(super) const GUIDE_MANAGED: &str =
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#unified-memory-programming";
pub(super) const GUIDE_SYSTEM: &str = "https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/unified-memory.html#unified-memory-on-devices-with-full-cuda-unified-memory-support";
pub(super) const GUIDE_COHERENCE: &str = "https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/unified-memory.html#cpu-and-gpu-page-tables-hardware-coherency-vs-software-coherency";
pub(super) const GUIDE_DEVICES: &str =
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#multi-device-system";
pub(super) const GUIDE_GRAPHS: &str = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#creating-a-graph-using-stream-capture";
pub(super) const GUIDE_POOLS: &str = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#stream-ordered-memory-allocator";
pub(super) const GUIDE_ALIGNMENT: &str =
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#device-memory-accesses";
pub(super) const GUIDE_COMPUTE_CAPABILITIES: &str =
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#compute-capabilities";
/// Measured, but not documented: the recorded results of an H200, without the simulator.
pub(super) const MEASURED: &str = "docs/results/h200-cuda-13.0/conformance-gpu.json";
