//! What a use of a buffer costs in one kind of memory and in the other.

use crate::buffer::placement::AccessPattern;
use crate::buffer::transfer::{Direction, Transfers};
use crate::context::device::Device;
use cuda_um_cost::at_rate;
use std::time::Duration;

/// The time of one use in managed and in mapped memory; `None` where the pattern alone decides.
///
/// A use is what the pattern says, with the host's data in memory of its own: in managed memory a staged copy and a kernel that finds
/// everything on the device, in mapped memory a copy by the CPU and a kernel that works over the link.
pub(crate) fn of_a_use(
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
