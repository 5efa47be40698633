//! The captured launches.

use cuda_um_sys::{CUfunction, cudaGraphNode_t};
use std::any::{Any, TypeId};
use std::sync::Arc;

pub(crate) struct KernelNode {
    /// Keeps the kernel loaded.
    pub(crate) module: Arc<dyn Any + Send + Sync>,
    /// What a change of its named scalars needs, if it has any.
    pub(crate) named: Option<Box<NamedLaunch>>,
}

/// A captured launch with named scalars.
pub(crate) struct NamedLaunch {
    /// CUDA's node, once the launch is captured.
    pub(crate) node: cudaGraphNode_t,
    pub(crate) function: CUfunction,
    /// Grid, block, and bytes of shared memory.
    pub(crate) shape: ([u32; 3], [u32; 3], u32),
    /// The value or address of each parameter.
    pub(crate) values: Vec<Vec<u64>>,
    /// The parameter of each named scalar, and the scalar's index.
    pub(crate) scalars: Vec<(usize, u32)>,
}

#[allow(unsafe_code, reason = "handles of kernels and nodes")]
// SAFETY: the handles are only passed to CUDA, under the rules of the graph's owner, while the module is loaded.
unsafe impl Send for NamedLaunch {}
#[allow(unsafe_code, reason = "handles of kernels and nodes")]
// SAFETY: as above.
unsafe impl Sync for NamedLaunch {}

#[derive(Clone, PartialEq)]
pub(crate) struct NamedScalar {
    pub(crate) name: String,
    pub(crate) of: TypeId,
    pub(crate) type_name: &'static str,
    pub(crate) value: Vec<u8>,
}
