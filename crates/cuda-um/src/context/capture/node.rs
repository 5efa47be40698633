//! The captured launches, and their scalars.

use crate::context::capture::Capture;
use crate::error::{Error, Result};
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

impl Capture {
    /// The index of a scalar. The same name with another type or another value gets an index of its own, which no launch takes
    /// ([`check_scalar`](Self::check_scalar)).
    pub(crate) fn scalar(&self, scalar: NamedScalar) -> u32 {
        let mut scalars = self.scalars.borrow_mut();
        let known = scalars.iter().position(|known| *known == scalar);
        known.unwrap_or_else(|| {
            scalars.push(scalar);
            scalars.len() - 1
        }) as u32
    }

    /// Refuses a scalar whose name an earlier one has, with another type or another value.
    pub(crate) fn check_scalar(&self, index: u32) -> Result<()> {
        let scalars = self.scalars.borrow();
        let scalar = &scalars[index as usize];
        let first = scalars.iter().find(|other| other.name == scalar.name);
        let first = first.filter(|first| *first != scalar);
        first.map_or(Ok(()), |first| {
            Err(Error::InvalidArgument {
                what: "a scalar of a capture",
                value: format!("`{}` of type {}", scalar.name, scalar.type_name),
                reason: match first.of == scalar.of {
                    true => "it has another value under that name, and `set` makes both the same: use another name".to_owned(),
                    false => format!("it is of type {} before: use another name", first.type_name),
                },
            })
        })
    }
}
