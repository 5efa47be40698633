//! Where a unified buffer lives: in managed memory, or in pinned memory that the device has mapped. One pointer either way.

use crate::buffer::transfer::{Direction, Transfers};
use crate::context::device::Device;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use cuda_um_cost::at_rate;
use std::fmt;
use std::time::Duration;

/// How a buffer will be used, as far as the caller can say.
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
    /// Nothing is known: managed memory, without advice.
    #[default]
    General,
    /// Written seldom, and read by the host and the device again and again: managed memory, of which each side keeps a copy.
    ReadMostly,
    /// Used by the device nearly always: managed memory, which stays there.
    DeviceResident,
    /// Written by a kernel once, and then read by the host.
    ReadBack,
    /// Written by the host once, and read by a kernel once.
    StreamOnce,
}

/// What memory a unified buffer is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// Selected by the [`AccessPattern`], the size and the machine's cost model; mapped memory on a device whose managed memory is poor
    /// ([`Device::managed_memory_obstacle`]).
    #[default]
    Auto,
    /// Managed memory (`cudaMallocManaged`): pages migrate to who uses them.
    Managed,
    /// Pinned memory of the host, mapped for the device (`cudaHostAlloc`): nothing migrates, and kernels use it over the link.
    Mapped,
}

/// What memory a unified buffer has, and why: [`UnifiedBuffer::placement`](crate::UnifiedBuffer::placement).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placed {
    /// [`Placement::Managed`] or [`Placement::Mapped`].
    pub placement: Placement,
    /// The pattern that was stated.
    pub pattern: AccessPattern,
    /// Advice that was given with it.
    pub advice: Option<Advice>,
    /// Why, in words.
    pub reason: String,
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = match self.placement {
            Placement::Mapped => "mapped pinned memory",
            _ => "managed memory",
        };
        write!(f, "{memory} ({:?}), {}", self.pattern, self.reason)
    }
}

/// The choice as a buffer keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pattern: AccessPattern,
    why: Why,
}

#[derive(Clone, Copy, Debug)]
enum Why {
    /// Managed memory of a resource that the caller named.
    Resource,
    AskedManaged,
    AskedMapped,
    /// Managed, since the pattern says so.
    Pattern,
    /// Mapped, since managed memory is poor: [`Device::managed_memory_obstacle`].
    Poor,
    CannotMap,
    Cost {
        managed: Duration,
        mapped: Duration,
    },
}

impl Chosen {
    /// Of a buffer in memory of a resource.
    pub(crate) const OF_A_RESOURCE: Self = Self {
        pattern: AccessPattern::General,
        why: Why::Resource,
    };

    /// Decides for a buffer of so many bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] for what was asked for and cannot be had.
    pub(crate) fn new(
        device: &Device,
        bytes: usize,
        placement: Placement,
        pattern: AccessPattern,
    ) -> Result<Self> {
        let can = device.capabilities();
        let can_map = can.map_host_memory && can.unified_addressing;
        let why = match placement {
            Placement::Managed => Why::AskedManaged,
            Placement::Mapped if can_map => Why::AskedMapped,
            Placement::Mapped => {
                return Err(cannot(
                    device,
                    "mapped memory at the host's own address",
                    "a device that maps host memory, with unified addressing",
                ));
            }
            Placement::Auto if can_map && device.managed_memory_obstacle().is_some() => Why::Poor,
            Placement::Auto => match cost_of_a_use(device, pattern, bytes) {
                None => Why::Pattern,
                Some(_) if !can_map => Why::CannotMap,
                Some((managed, mapped)) => Why::Cost { managed, mapped },
            },
        };
        Ok(Self { pattern, why })
    }

    pub(crate) fn is_mapped(&self) -> bool {
        match self.why {
            Why::AskedMapped | Why::Poor => true,
            Why::Cost { managed, mapped } => mapped < managed,
            _ => false,
        }
    }

    /// The advice that goes with it, where the device takes any.
    pub(crate) fn advice(&self, device: &Device) -> Option<Advice> {
        let takes = !self.is_mapped() && device.capabilities().concurrent_managed_access;
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
        let reason = match (self.why, advice) {
            (Why::Resource, _) => "of the pool or memory resource that it was allocated from".to_owned(),
            (Why::AskedManaged | Why::AskedMapped, _) => "as asked for".to_owned(),
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
        Placed {
            placement: match self.is_mapped() {
                true => Placement::Mapped,
                false => Placement::Managed,
            },
            pattern: self.pattern,
            advice,
            reason,
        }
    }
}

/// The first compute capability with page faults on the GPU (Pascal).
const FIRST_WITH_PAGE_FAULTS: (u32, u32) = (6, 0);

impl Device {
    /// The reason why [`Placement::Auto`] uses mapped memory on this device for every pattern, or `None` if its managed memory is good.
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
        } else {
            None
        }
    }
}

fn cannot(device: &Device, what: &str, needs: &str) -> Error {
    Error::NotSupported {
        what: what.to_owned(),
        needs: needs.to_owned(),
        have: format!(
            "device {} ({}), which cannot",
            device.ordinal(),
            device.name()
        ),
    }
}

/// The time of one use in managed and in mapped memory; `None` where the pattern alone decides.
///
/// A use is what the pattern says, with the host's data in memory of its own: in managed memory a staged copy and a kernel that finds
/// everything on the device, in mapped memory a copy by the CPU and a kernel that works over the link.
fn cost_of_a_use(
    device: &Device,
    pattern: AccessPattern,
    bytes: usize,
) -> Option<(Duration, Duration)> {
    let direction = match pattern {
        AccessPattern::StreamOnce => Direction::ToDevice,
        AccessPattern::ReadBack => Direction::ToHost,
        AccessPattern::General | AccessPattern::ReadMostly | AccessPattern::DeviceResident => {
            return None;
        }
    };
    let (model, transfers) = (device.cost_model(), Transfers::of(device.state()));
    let managed = transfers.predict_staged(&model, direction, bytes)
        + at_rate(bytes as u64, model.kernel_rate);
    let mapped =
        transfers.predict_on_host(&model, bytes) + at_rate(bytes as u64, model.remote_rate);
    Some((managed, mapped))
}
