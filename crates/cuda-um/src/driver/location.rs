//! Locations of managed memory.

use cuda_um_sys as sys;
use std::fmt;

/// A location of managed memory: `cudaMemLocation`.
///
/// A runtime before CUDA 12.2 supports only [`Host`](Location::Host) and [`Device`](Location::Device). For another location it returns
/// [`Error::NotSupported`](crate::Error::NotSupported).
#[doc(alias = "cudaMemLocation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// The memory of the CPU.
    Host,
    /// The memory of one NUMA node of the CPU.
    HostNuma(i32),
    /// The memory of the NUMA node that the calling thread runs on.
    HostNumaCurrent,
    /// The memory of the device with this ordinal.
    Device(u32),
}

impl Location {
    /// Returns true for a NUMA node of the host, which is not a processor.
    pub(crate) fn is_numa(self) -> bool {
        matches!(self, Self::HostNuma(_) | Self::HostNumaCurrent)
    }

    /// The form for CUDA 12.2 and later.
    pub(crate) fn to_sys(self) -> sys::cudaMemLocation {
        use sys::cudaMemLocationType as Type;
        let (type_, id) = match self {
            Self::Host => (Type::cudaMemLocationTypeHost, 0),
            Self::HostNuma(node) => (Type::cudaMemLocationTypeHostNuma, node),
            Self::HostNumaCurrent => (Type::cudaMemLocationTypeHostNumaCurrent, 0),
            Self::Device(ordinal) => (Type::cudaMemLocationTypeDevice, ordinal as i32),
        };
        sys::cudaMemLocation { type_, id }
    }

    /// The form for versions before CUDA 12.2; `None` if they do not support the location.
    pub(crate) fn to_ordinal(self) -> Option<i32> {
        match self {
            Self::Host => Some(CPU),
            Self::Device(ordinal) => i32::try_from(ordinal).ok(),
            Self::HostNuma(_) | Self::HostNumaCurrent => None,
        }
    }

    /// Converts the value of an older range attribute; `None` for "no location".
    pub(crate) fn from_ordinal(ordinal: i32) -> Option<Self> {
        match ordinal {
            CPU => Some(Self::Host),
            _ => u32::try_from(ordinal).ok().map(Self::Device),
        }
    }

    /// Converts the value of a newer range attribute; `None` for "no location".
    pub(crate) fn from_sys(type_: u32, id: i32) -> Option<Self> {
        use sys::cudaMemLocationType as Type;
        match Type(type_ as _) {
            Type::cudaMemLocationTypeHost => Some(Self::Host),
            Type::cudaMemLocationTypeHostNuma => Some(Self::HostNuma(id)),
            Type::cudaMemLocationTypeHostNumaCurrent => Some(Self::HostNumaCurrent),
            Type::cudaMemLocationTypeDevice => u32::try_from(id).ok().map(Self::Device),
            _ => None,
        }
    }
}

const CPU: i32 = -1;

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("the host"),
            Self::HostNuma(node) => write!(f, "host NUMA node {node}"),
            Self::HostNumaCurrent => f.write_str("the current host NUMA node"),
            Self::Device(ordinal) => write!(f, "device {ordinal}"),
        }
    }
}
