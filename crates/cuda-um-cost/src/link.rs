//! Classes of links between host and GPU.

/// What a GPU hangs on. The figures of a [`CostModel`](crate::CostModel) that matter for placement follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Link {
    /// PCIe 3 x16: about 12 GB/s each way.
    Pcie3,
    /// PCIe 4 x16: about 25 GB/s each way.
    Pcie4,
    /// PCIe 5 x16: about 55 GB/s each way.
    Pcie5,
    /// NVLink-C2C of Grace Hopper and Grace Blackwell: some hundred GB/s, and coherent.
    NvlinkC2c,
}

impl Link {
    /// Guesses the link of a GPU by its compute capability, and by whether it uses the host's page tables
    /// (`cudaDevAttrPageableMemoryAccessUsesHostPageTables`).
    ///
    /// **It is a guess:** the best link that GPUs of that generation come with, in a slot with all 16 lanes. CUDA says nothing
    /// about the slot; an H100 in a server of PCIe 4, a laptop's 8 lanes, or a GPU in a virtual machine are slower, and POWER9
    /// (compute capability 7.0 with the host's page tables) is taken for PCIe 3, which its NVLink 2 exceeds. Calibrate to know.
    ///
    /// | compute capability | generation | link |
    /// |---|---|---|
    /// | 9.0 and above, with the host's page tables | Grace Hopper, Grace Blackwell | NVLink-C2C |
    /// | 9.0 and above | Hopper, Blackwell | PCIe 5 |
    /// | 8.0 to 8.9 | Ampere, Ada | PCIe 4 |
    /// | below | Maxwell to Turing | PCIe 3 |
    pub fn of(compute_capability: (u32, u32), uses_host_page_tables: bool) -> Link {
        match compute_capability {
            (9.., _) if uses_host_page_tables => Link::NvlinkC2c,
            (9.., _) => Link::Pcie5,
            (8, _) => Link::Pcie4,
            _ => Link::Pcie3,
        }
    }
}
