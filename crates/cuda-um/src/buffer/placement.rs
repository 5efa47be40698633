//! The decision for the memory of a unified buffer.

use crate::buffer::transfer::{Direction, Transfers};
use crate::buffer::view::View;
use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::placement::{AccessPattern, Chosen, Placed, Placement, Why};
use cuda_um_cost::at_rate;
use std::time::Duration;

impl<T> View<'_, T> {
    /// Returns the kind of memory that a unified buffer has, and the reason; `None` for other buffers.
    pub fn placement(&self) -> Option<Placed> {
        let chosen = self.raw.chosen()?;
        Some(chosen.in_words(self.device()))
    }
}

impl Chosen {
    /// Decides for a buffer of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] if the requested memory is not available on the device.
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
            Placement::System => {
                device.state().check_pageable_access("system memory")?;
                Why::AskedSystem
            }
            Placement::Auto if can_map && device.managed_memory_obstacle().is_some() => Why::Poor,
            Placement::Auto => match cost_of_a_use(device, pattern, bytes) {
                None => Why::Pattern,
                Some(_) if !can_map => Why::CannotMap,
                Some((managed, mapped)) => Why::Cost { managed, mapped },
            },
        };
        Ok(Self {
            pattern,
            why,
            copy_of: None,
        })
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

/// Returns the time of one use in managed and in mapped memory; `None` if only the pattern decides.
///
/// The pattern defines a use; the host's data is in separate memory. In managed memory a use is a staged copy, and a kernel that finds all
/// pages on the device. In mapped memory it is a copy by the CPU, and a kernel that works over the link.
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
    let managed = transfers.predict(device.capabilities(), &model, direction, bytes)
        + at_rate(bytes as u64, model.kernel_rate);
    let mapped =
        transfers.predict_on_host(&model, bytes) + at_rate(bytes as u64, model.remote_rate);
    Some((managed, mapped))
}
