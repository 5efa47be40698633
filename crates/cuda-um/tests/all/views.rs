//! Views: a part of a buffer does what the whole buffer does; disjoint parts are used at the same time; one buffer is input and output.

mod disjoint;
pub(crate) mod double;
mod in_place;
mod owned;
mod parts;
mod within;

use cuda_um_sim::{Gpu, Sim};
use cuda_um_testkit::{Checked, checked, device, on_gpu};

/// The generations of simulated GPUs.
pub const GPUS: [Gpu; 5] = [
    Gpu::H200,
    Gpu::Gh200,
    Gpu::Pascal,
    Gpu::Maxwell,
    Gpu::NoConcurrentAccess,
];

/// Runs a test on each simulated GPU; if the tests run on a GPU, on that one only.
pub fn on_each_gpu(test: impl Fn(Option<&Checked>, &cuda_um::Device, &cuda_um::Stream)) {
    if on_gpu() {
        let (sim, device, stream) = device();
        return test(sim.as_ref(), &device, &stream);
    }
    for gpu in GPUS {
        let (sim, device, stream) = checked(Sim::builder().gpu(gpu));
        test(Some(&sim), &device, &stream);
    }
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
