//! Classes of links between host and device.

/// The link between a GPU and the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkKind {
    /// PCIe 3 x16, about 12 GB/s each way.
    Pcie3,
    /// PCIe 4 x16, about 25 GB/s each way.
    Pcie4,
    /// PCIe 5 x16, about 55 GB/s each way.
    Pcie5,
    /// NVLink-C2C, as in Grace Hopper.
    NvlinkC2c,
}

impl LinkKind {
    /// The usual link of GPUs with a compute capability. This is a guess, because the CUDA runtime does not report the link.
    /// `uses_host_page_tables` is the attribute `cudaDevAttrPageableMemoryAccessUsesHostPageTables`, which coherent links have.
    ///
    /// ```
    /// use cuda_um_cost::LinkKind;
    /// assert_eq!(LinkKind::of((9, 0), false), LinkKind::Pcie5);
    /// assert_eq!(LinkKind::of((9, 0), true), LinkKind::NvlinkC2c);
    /// assert_eq!(LinkKind::of((8, 6), false), LinkKind::Pcie4);
    /// ```
    pub fn of(compute_capability: (u32, u32), uses_host_page_tables: bool) -> Self {
        match compute_capability.0 {
            _ if uses_host_page_tables => Self::NvlinkC2c,
            ..8 => Self::Pcie3,
            8 => Self::Pcie4,
            _ => Self::Pcie5,
        }
    }
}
