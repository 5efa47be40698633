//! cudarc and cuda-um in one process: both find CUDA's libraries themselves, and use the memory of each other.
#![allow(unsafe_code, reason = "gives memory of one library to the other")]

use cuda_um::{Location, Runtime, UnifiedBuffer};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    println!(
        "CUDA {} and {}: one device",
        runtime.version(),
        context.name()?
    );

    // A kernel of cudarc on a buffer of cuda-um.
    let input = UnifiedBuffer::from_slice(&device, &[1.5_f32; 4096])?;
    let mut output = UnifiedBuffer::<f32>::zeroed(&device, 4096)?;
    device.synchronize()?;
    let module = context.load_module(Ptx::from_src(include_str!(
        "../../../../kernels/ptx/scale.ptx"
    )))?;
    let scale = module.load_function("scale_f32")?;
    let (from, to) = (input.as_ptr() as u64, output.as_mut_ptr() as u64);
    let (factor, len) = (2.0_f32, 4096_u64);
    let mut launch = stream.launch_builder(&scale);
    launch.arg(&from).arg(&to).arg(&factor).arg(&len);
    // SAFETY: the addresses are those of two buffers with `len` elements, which live until the end of this function.
    unsafe { launch.launch(LaunchConfig::for_num_elems(4096)) }?;
    context.synchronize()?;
    // Work of cuda-um on the stream of cudarc. It calls functions that some versions lack, and others with the signature of the version.
    // SAFETY: the stream lives as long as its `Arc`.
    let ours = unsafe { device.adopt_stream(stream.cu_stream().cast(), Arc::clone(&stream)) }?;
    if device.capabilities().concurrent_managed_access {
        input.prefetch_on(Location::Host, &ours)?;
    }
    // The host touches pages that the kernel has moved to the device.
    assert!(output.host()?.iter().all(|value| *value == 3.0));

    // A copy of cudarc from a buffer of cuda-um; both libraries see the same free memory.
    // SAFETY: the buffer has 4096 elements, and `leak` gives it back before it is dropped.
    let slice = unsafe { stream.upgrade_device_ptr::<f32>(to, 4096) };
    assert_eq!(stream.clone_dtoh(&slice)?, [3.0; 4096]);
    slice.leak();
    context.synchronize()?;
    let info = device.memory_info()?;
    assert_eq!((info.free_bytes, info.total_bytes), context.mem_get_info()?);
    println!("one memory space");
    Ok(())
}
