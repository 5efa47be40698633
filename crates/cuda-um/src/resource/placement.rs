//! The placement of a unified buffer: managed memory, or pinned memory that is mapped for the device. Both have one address for host and
//! device.

use crate::context::device::Device;
use crate::context::non_concurrent::NonConcurrentAccess;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::resource::kind::MemoryKind;
use std::fmt;
use std::time::Duration;

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
    /// The library selects the memory by the [`AccessPattern`], the size and the machine's cost model; it selects mapped memory on a device
    /// whose managed memory is poor ([`Device::managed_memory_obstacle`]).
    #[default]
    Auto,
    /// Managed memory ([`cudaMallocManaged`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)): pages migrate to
    /// the processor that uses them.
    Managed,
    /// Pinned host memory, mapped for the device (`cudaHostAlloc`): nothing migrates, and kernels use it over the link.
    Mapped,
    /// Memory of the operating system ([`SystemMemory`](crate::resource::SystemMemory)), for devices with pageable memory access: no call of
    /// CUDA allocates or frees it, and a page belongs where it is first touched. [`Auto`](Self::Auto) selects it only for data that exist, as
    /// vectors and files: an allocation from a pool takes less time than new pages of the operating system.
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

/// The placement decision that a buffer stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub(crate) pattern: AccessPattern,
    pub(crate) why: Why,
    /// The data of the caller that were copied, because the device cannot access them.
    pub(crate) copy_of: Option<Origin>,
}

/// Data of the caller that can be a buffer without a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    Vector,
    File,
}

/// The reason of a placement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// Memory of a resource that the caller passed.
    Resource(MemoryKind),
    AskedManaged,
    AskedMapped,
    AskedSystem,
    /// System memory, which is data of the caller.
    Adopted(Origin),
    /// Managed memory, because the pattern requires it.
    Pattern,
    /// Mapped memory, because managed memory is poor: [`Device::managed_memory_obstacle`].
    Poor,
    CannotMap,
    Cost {
        managed: Duration,
        mapped: Duration,
    },
}

impl Chosen {
    /// The decision for a buffer in memory of a resource.
    pub(crate) fn of_a_resource(kind: MemoryKind) -> Self {
        Self {
            pattern: AccessPattern::General,
            why: Why::Resource(kind),
            copy_of: None,
        }
    }

    /// The decision for further memory like that of a buffer, which is not the caller's data.
    pub(crate) fn again(self) -> Self {
        Self {
            why: match self.why {
                Why::Adopted(_) => Why::Resource(MemoryKind::System),
                why => why,
            },
            copy_of: None,
            ..self
        }
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        match self.why {
            Why::AskedMapped | Why::Poor => MemoryKind::Pinned,
            Why::Cost { managed, mapped } if mapped < managed => MemoryKind::Pinned,
            Why::Resource(kind) => kind,
            Why::AskedSystem | Why::Adopted(_) => MemoryKind::System,
            _ => MemoryKind::Managed,
        }
    }

    /// Returns the advice that the decision implies, if the device accepts advice.
    pub(crate) fn advice(&self, device: &Device) -> Option<Advice> {
        let takes =
            self.kind() != MemoryKind::Pinned && device.capabilities().concurrent_managed_access;
        match self.pattern {
            AccessPattern::ReadMostly => Some(Advice::SetReadMostly),
            AccessPattern::DeviceResident => {
                Some(Advice::SetPreferredLocation(Location::from(device)))
            }
            AccessPattern::General | AccessPattern::ReadBack | AccessPattern::StreamOnce => None,
        }
        .filter(|_| takes)
    }

    pub(crate) fn in_words(&self, device: &Device) -> Placed {
        let advice = self.advice(device);
        let mut reason = match (self.why, advice) {
            (Why::Resource(_), _) => {
                "of the pool, memory resource or other library that it comes from".to_owned()
            }
            (Why::AskedManaged | Why::AskedMapped | Why::AskedSystem, _) => {
                "as asked for".to_owned()
            }
            (Why::Adopted(origin), _) => format!("the caller's {origin} itself, without a copy"),
            (Why::Poor, _) => match device.managed_memory_obstacle() {
                Some(obstacle) => format!("since {obstacle}"),
                None => "since managed memory is poor".to_owned(),
            },
            (Why::CannotMap, _) => format!("since {} cannot map host memory", device.name()),
            (Why::Pattern, Some(advice)) => format!("with the advice {advice:?}"),
            (Why::Pattern, None) if self.pattern == AccessPattern::General => {
                "since the pattern says nothing".to_owned()
            }
            (Why::Pattern, None) => {
                format!(
                    "without advice: {} has no concurrent managed access",
                    device.name()
                )
            }
            (Why::Cost { managed, mapped }, _) => format!(
                "since a use takes about {mapped:.1?} in mapped and {managed:.1?} in managed memory (cost model: {})",
                device.cost_model().source
            ),
        };
        if let Some(origin) = self.copy_of {
            reason += &format!(
                "; a copy of the caller's {origin}, since {} has no pageable memory access",
                device.name()
            );
        }
        Placed {
            placement: match self.kind() {
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

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vector => "vector",
            Self::File => "file",
        })
    }
}

/// The first compute capability that has page faults on the GPU (Pascal).
const FIRST_WITH_PAGE_FAULTS: (u32, u32) = (6, 0);

impl Device {
    /// Returns the reason for which [`Placement::Auto`] uses mapped memory on this device for every pattern, or `None` if its managed
    /// memory is good.
    #[must_use]
    pub fn managed_memory_obstacle(&self) -> Option<String> {
        let capabilities = self.capabilities();
        let (name, (major, minor)) = (self.name(), capabilities.compute_capability);
        if !capabilities.managed_memory {
            Some(format!("{name} has no managed memory"))
        } else if capabilities.compute_capability < FIRST_WITH_PAGE_FAULTS {
            Some(format!(
                "{name} has compute capability {major}.{minor}: managed memory cannot migrate on access before compute capability 6.0"
            ))
        } else if !capabilities.concurrent_managed_access
            && self.non_concurrent_access() == NonConcurrentAccess::Mapped
        {
            Some(format!(
                "{name} has no concurrent managed access, and NonConcurrentAccess::Mapped is set"
            ))
        } else {
            None
        }
    }
}
