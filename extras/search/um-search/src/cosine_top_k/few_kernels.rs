//! The kernels for few queries.

use super::types::{EachType, each_type};
use crate::error::Result;
use crate::workspace::Workspace;
use cuda_um::{Device, Kernel, Module};

/// The largest numbers of queries of the kernels.
const MOST: [usize; 2] = [4, 12];
/// The kernels for each of [`MOST`].
#[derive(Debug)]
pub(super) struct FewKernels([EachType; 2]);

impl FewKernels {
    pub fn load(device: &Device) -> Result<Self> {
        let ptx = include_str!("../../ptx/cosine_top_k_few.ptx");
        crate::load::load(device, ptx, |module: &Module| {
            let [least, most] =
                MOST.map(|most| each_type(module, &format!("cosine_top_k_few_{most}")));
            Ok(Self([least?, most?]))
        })
    }

    /// The kernel for this number of queries, and for rows of this type.
    pub fn of(&self, queries: usize, index: usize) -> &Kernel {
        &self.0[usize::from(queries > MOST[0])][index]
    }
}

/// The kernels for compute capability 8.0 and newer, and memory for the first tile that no block has taken.
#[derive(Debug)]
pub(super) struct Few80 {
    pub begin: Kernel,
    pub lists: EachType,
    pub next: Workspace<u32>,
}

impl Few80 {
    pub fn load(device: &Device) -> Result<Self> {
        let ptx = include_str!("../../ptx/cosine_top_k_few_80.ptx");
        crate::load::load(device, ptx, |module: &Module| {
            Ok(Self {
                begin: module.kernel("cosine_top_k_few_80_begin")?,
                lists: each_type(module, "cosine_top_k_few_80")?,
                next: Workspace::new(device),
            })
        })
    }
}
