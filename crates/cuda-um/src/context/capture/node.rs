//! The captured work, piece by piece.

use crate::context::tracker::Access;
use cuda_um_sys::{CUfunction, cudaGraphNode_t};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// One piece of captured work: a launch, a fill, a copy, work of another library.
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The index of each slot that it uses.
    pub(crate) uses: SmallVec<[(usize, Access); 4]>,
    /// CUDA's nodes that it runs after.
    pub(crate) after: SmallVec<[cudaGraphNode_t; 2]>,
    /// The last of CUDA's nodes that it has.
    pub(crate) nodes: SmallVec<[cudaGraphNode_t; 2]>,
}

#[allow(unsafe_code, reason = "handles of nodes")]
// SAFETY: the nodes are handles, which are only passed to CUDA, under the rules of the graph's owner.
unsafe impl Send for Node {}
#[allow(unsafe_code, reason = "handles of nodes")]
// SAFETY: as above.
unsafe impl Sync for Node {}

#[allow(unsafe_code, reason = "the handle of a kernel")]
// SAFETY: the function is a handle, which is only passed to CUDA, while the module is loaded.
unsafe impl Send for KernelNode {}
#[allow(unsafe_code, reason = "the handle of a kernel")]
// SAFETY: as above.
unsafe impl Sync for KernelNode {}

/// The kind of captured work.
pub(crate) enum Kind {
    Kernel(Box<KernelNode>),
    Fill,
    Copy,
    Foreign,
    /// The body of a condition, which runs once or not, or again and again.
    Body {
        repeats: bool,
        nodes: Vec<Node>,
    },
}

/// Grid, block, and bytes of shared memory.
pub(crate) type Shape = ([u32; 3], [u32; 3], u32);

/// A captured launch, with all that another launch of the node needs.
#[derive(Clone)]
pub(crate) struct KernelNode {
    pub(crate) name: Arc<str>,
    pub(crate) function: CUfunction,
    /// Keeps the kernel loaded.
    pub(crate) module: Arc<dyn Any + Send + Sync>,
    /// Grid, block, and bytes of shared memory.
    pub(crate) shape: Shape,
    /// The values and addresses; each begins a word.
    pub(crate) words: Vec<u64>,
    /// The size of each value in bytes.
    pub(crate) sizes: Vec<u32>,
    /// The arguments that are addresses: the word, and the slot of the memory.
    pub(crate) addresses: Vec<(usize, usize)>,
    /// The arguments that are parameters of the graph: the first word, the size in bytes, and the number of the parameter.
    pub(crate) parameters: Vec<(usize, u32, u32)>,
}

/// The captured launches, with those in bodies, in the order of the capture.
pub(crate) fn kernels(nodes: &[Node]) -> Vec<&KernelNode> {
    let mut all = Vec::new();
    for node in nodes {
        match &node.kind {
            Kind::Kernel(kernel) => all.push(&**kernel),
            Kind::Body { nodes, .. } => all.extend(kernels(nodes)),
            Kind::Fill | Kind::Copy | Kind::Foreign => {}
        }
    }
    all
}

impl Kind {
    /// The work in words.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Kernel(kernel) => &kernel.name,
            Self::Fill => "fill",
            Self::Copy => "copy",
            Self::Foreign => "work of another library",
            Self::Body { repeats: false, .. } => "if",
            Self::Body { repeats: true, .. } => "while",
        }
    }

    pub(crate) fn is_body(&self) -> bool {
        matches!(self, Self::Body { .. })
    }
}
