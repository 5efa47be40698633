//! A program that knows only cudarc: copies, streams, events, a kernel from PTX. The same program runs on a GPU.
#![allow(unsafe_code, reason = "launches a kernel")]

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::error::Error;
use std::sync::Arc;

/// `scale_f32(in, out, factor, len)`.
const SCALE: &str = include_str!("../../../../kernels/ptx/scale.ptx");

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    println!(
        "{}: compute capability {:?}",
        context.name()?,
        context.compute_capability()?
    );
    scale(&context)?;

    let stream = context.default_stream();
    let zeros = stream.alloc_zeros::<u8>(100)?;
    assert_eq!(stream.clone_dtoh(&zeros)?, [0; 100]);
    // SAFETY: the memory is written before it is read.
    let mut managed = unsafe { context.alloc_unified::<u32>(1000, true) }?;
    managed.as_mut_slice()?.fill(7);
    assert_eq!(stream.clone_dtoh(&managed)?, [7; 1000]);
    context.synchronize()?;
    Ok(())
}

fn scale(context: &Arc<CudaContext>) -> Result<(), DriverError> {
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    let module = context.load_module(Ptx::from_src(SCALE))?;
    let function = module.load_function("scale_f32")?;
    let values: Vec<f32> = (0..1000).map(|value| value as f32).collect();
    let data = stream.clone_htod(&values)?;
    let mut output = stream.alloc_zeros::<f32>(values.len())?;
    let before = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
    let (factor, len) = (3.0_f32, values.len() as u64);
    let mut launch = other.launch_builder(&function);
    launch.arg(&data).arg(&mut output).arg(&factor).arg(&len);
    // SAFETY: the kernel's parameters are pointers to `len` elements each, the factor and `len`.
    unsafe { launch.launch(LaunchConfig::for_num_elems(1000)) }?;
    let after = other.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
    let copy = output.try_clone()?;
    let scaled = stream.clone_dtoh(&copy)?;
    assert!(
        scaled
            .iter()
            .zip(&values)
            .all(|(scaled, value)| *scaled == value * 3.0)
    );
    assert!(before.elapsed_ms(&after)? >= 0.0);
    println!("scaled {} elements", scaled.len());
    Ok(())
}
