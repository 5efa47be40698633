//! Views: a part of a buffer does what the whole buffer does; disjoint parts are used at the same time; one buffer is input and output.

mod disjoint;
pub(crate) mod double;
mod owned;
mod parts;

use cuda_um::{Device, Stream};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Checked, machines};

use Gpu::{Gh200, H200, Maxwell, NoConcurrentAccess, Pascal};

/// The generations of GPUs.
pub fn everywhere() -> impl Iterator<Item = (Option<Checked>, Device, Stream)> {
    machines([H200, Gh200, Pascal, Maxwell, NoConcurrentAccess])
}

/// Runs the body with a new buffer of each kind, with these contents.
macro_rules! each_kind {
    ($device:expr, $contents:expr, |mut $buffer:ident| $body:expr) => {{
        let (device, contents) = ($device, $contents);
        {
            let mut $buffer = cuda_um::UnifiedBuffer::from_slice(device, contents).unwrap();
            $body
        }
        {
            let mut $buffer = cuda_um::DeviceBuffer::from_slice(device, contents).unwrap();
            $body
        }
        {
            let mut $buffer = cuda_um::PinnedBuffer::from_slice(device, contents).unwrap();
            $body
        }
        {
            let mut $buffer =
                cuda_um::RegisteredBuffer::from_vec(device, contents.to_vec()).unwrap();
            $body
        }
    }};
}
pub(crate) use each_kind;
