//! The placement of a unified buffer: managed memory, or pinned memory that is mapped for the device. Both have one address for host and
//! device.

use crate::context::device::Device;
use crate::context::non_concurrent::NonConcurrentAccess;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::error::Result;
use crate::resource::kind::MemoryKind;
use std::fmt;

/// The expected use of a buffer, as far as the caller knows it.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{AccessPattern, Placement, UnifiedBuffer, UnifiedOptions};
///
/// let options = UnifiedOptions::default().pattern(AccessPattern::ReadBack);
/// let scores = UnifiedBuffer::<f32>::zeroed_with(&device, 1000, options)?; // a kernel writes them in place, over the link
/// assert_eq!(scores.placement().placement, Placement::Mapped);
/// println!("{}", scores.placement()); // says why
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AccessPattern {
    /// No expectation: managed memory, without advice.
    #[default]
    General,
    /// Written rarely, and read often by both host and device: managed memory, of which each side keeps a copy.
    ReadMostly,
    /// Used almost only by the device: managed memory that stays there.
    DeviceResident,
    /// Written once by a kernel, then read by the host.
    ReadBack,
    /// Written once by the host, then read once by a kernel.
    StreamOnce,
}

/// The kind of memory that a unified buffer requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// The library selects the memory by the [`AccessPattern`] and the size: mapped memory for [`StreamOnce`](AccessPattern::StreamOnce) and
    /// [`ReadBack`](AccessPattern::ReadBack) up to 64 MiB (of any size on an integrated device), and for all patterns on a device whose
    /// managed memory is poor ([`Device::managed_memory_obstacle`]); otherwise managed memory.
    #[default]
    Auto,
    /// Managed memory ([`cudaMallocManaged`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)): pages migrate to
    /// the processor that uses them.
    Managed,
    /// Pinned host memory, mapped for the device (`cudaHostAlloc`): nothing migrates, and kernels use it over the link.
    Mapped,
    /// Memory of the operating system ([`SystemMemory`](crate::resource::SystemMemory)), for devices with pageable memory access.
    /// [`Auto`](Self::Auto) selects it only for data that exist, as vectors and files: an allocation from a pool takes less time than new pages.
    System,
}

/// The kind of memory that a unified buffer has, and the reason: [`UnifiedBuffer::placement`](crate::UnifiedBuffer::placement).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placed {
    /// [`Placement::Managed`], [`Placement::Mapped`] or [`Placement::System`].
    pub placement: Placement,
    /// The pattern that the options stated.
    pub pattern: AccessPattern,
    /// The advice that was given at the allocation.
    pub advice: Option<Advice>,
    /// The reason for the placement, in words.
    pub reason: String,
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = match self.placement {
            Placement::Mapped => "mapped pinned memory",
            Placement::System => "system memory",
            _ => "managed memory",
        };
        write!(f, "{memory} ({:?}), {}", self.pattern, self.reason)
    }
}

/// The largest buffers that [`Placement::Auto`] maps because they are used once, in bytes: one use over the link takes less time than copies. On
/// an integrated device, whose kernels use the memory of the host in any case, larger ones as well. Measured by `um_bench --only round_trip`.
const MAPPED_BYTES: usize = 64 << 20;

/// The decision, as a buffer stores it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub(crate) pattern: AccessPattern,
    pub(crate) kind: MemoryKind,
    pub(crate) why: Why,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// Memory of a resource that the caller passed.
    Resource,
    Asked,
    /// The rule of [`Placement::Auto`].
    Auto,
    /// Data of the caller: a vector or a file.
    Adopted(Data),
    /// A copy of such data, which the device cannot access.
    Copied(Data),
}

/// Data of the caller. A byte, because each buffer has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Data {
    Vector,
    File,
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vector => "vector",
            Self::File => "file",
        })
    }
}

impl AccessPattern {
    fn is_single_use(self) -> bool {
        matches!(self, Self::ReadBack | Self::StreamOnce)
    }
}

fn can_map(device: &Device) -> bool {
    let can = device.capabilities();
    can.map_host_memory && can.unified_addressing
}

impl Chosen {
    pub(crate) fn new(
        device: &Device,
        bytes: usize,
        placement: Placement,
        pattern: AccessPattern,
    ) -> Result<Self> {
        let maps = || bytes <= MAPPED_BYTES || device.capabilities().integrated;
        let kind = match placement {
            Placement::Managed => MemoryKind::Managed,
            Placement::Mapped => {
                let needs = "a device that maps host memory, with unified addressing";
                let what = || "mapped memory at the host's own address".to_owned();
                device
                    .state()
                    .check_attribute(can_map(device), needs, what)?;
                MemoryKind::Pinned
            }
            Placement::System => {
                device.state().check_pageable_access("system memory")?;
                MemoryKind::System
            }
            Placement::Auto => {
                let prefers_mapped =
                    pattern.is_single_use() && maps() || device.managed_memory_obstacle().is_some();
                match prefers_mapped && can_map(device) {
                    true => MemoryKind::Pinned,
                    false => MemoryKind::Managed,
                }
            }
        };
        let why = match placement {
            Placement::Auto => Why::Auto,
            _ => Why::Asked,
        };
        Ok(Self { pattern, kind, why })
    }

    /// The decision for further memory like that of a buffer, which is not the caller's data.
    pub(crate) fn again(self) -> Self {
        Self {
            why: match self.why {
                Why::Adopted(_) => Why::Resource,
                Why::Copied(_) => Why::Auto,
                why => why,
            },
            ..self
        }
    }

    /// Returns the advice that the decision implies, if the device accepts advice.
    pub(crate) fn advice(&self, device: &Device) -> Option<Advice> {
        let advice = match self.pattern {
            AccessPattern::ReadMostly => Advice::SetReadMostly,
            AccessPattern::DeviceResident => Advice::SetPreferredLocation(Location::from(device)),
            AccessPattern::General | AccessPattern::ReadBack | AccessPattern::StreamOnce => {
                return None;
            }
        };
        let takes = device.capabilities().concurrent_managed_access;
        (takes && self.kind != MemoryKind::Pinned).then_some(advice)
    }

    pub(crate) fn in_words(&self, device: &Device) -> Placed {
        let (advice, name) = (self.advice(device), device.name());
        let reason = match self.why {
            Why::Resource => {
                "of the pool, memory resource or other library that it comes from".into()
            }
            Why::Asked => "as asked for".into(),
            Why::Adopted(data) => format!("the caller's {data} itself, without a copy"),
            Why::Copied(data) => {
                format!("a copy of the caller's {data}, since {name} has no pageable memory access")
            }
            Why::Auto if self.kind == MemoryKind::Pinned => {
                match device.managed_memory_obstacle() {
                    Some(obstacle) => format!("since {obstacle}"),
                    None => "since one use over the link takes less time than copies".into(),
                }
            }
            Why::Auto if self.pattern.is_single_use() => match can_map(device) {
                true => "since copies of so many bytes take less time than the link".into(),
                false => format!("since {name} cannot map host memory"),
            },
            Why::Auto => match advice {
                Some(advice) => format!("with the advice {advice:?}"),
                None if self.pattern == AccessPattern::General => {
                    "since the pattern says nothing".into()
                }
                None => format!("without advice: {name} has no concurrent managed access"),
            },
        };
        Placed {
            placement: match self.kind {
                MemoryKind::Pinned => Placement::Mapped,
                MemoryKind::System => Placement::System,
                _ => Placement::Managed,
            },
            pattern: self.pattern,
            advice,
            reason,
        }
    }
}

impl Device {
    /// Returns the reason for which [`Placement::Auto`] uses mapped memory on this device for every pattern, or `None` if its managed
    /// memory is good.
    #[must_use]
    pub fn managed_memory_obstacle(&self) -> Option<String> {
        let can = self.capabilities();
        let (major, minor) = can.compute_capability;
        let obstacle = if !can.managed_memory {
            "no managed memory".to_owned()
        } else if major < 6 {
            format!(
                "compute capability {major}.{minor}: managed memory cannot migrate on access before compute capability 6.0"
            )
        } else if !can.concurrent_managed_access
            && self.non_concurrent_access() == NonConcurrentAccess::Mapped
        {
            "no concurrent managed access, and NonConcurrentAccess::Mapped is set".to_owned()
        } else {
            return None;
        };
        Some(format!("{} has {obstacle}", self.name()))
    }
}
