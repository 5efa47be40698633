//! A program that knows only cudarc: copies, streams, events, a kernel from PTX. The same program runs on a GPU.
#![allow(unsafe_code, reason = "launches a kernel")]

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::error::Error;

/// `scale_f32(in, out, factor, len)`.
const SCALE: &str = include_str!("../../../kernels/ptx/scale.ptx");

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    println!("{}: compute capability {:?}", context.name()?, context.compute_capability()?);

    let values: Vec<f32> = (0..1000).map(|value| value as f32).collect();
    let data = stream.clone_htod(&values)?;
    let mut output = stream.alloc_zeros::<f32>(values.len())?;
    let module = context.load_module(Ptx::from_src(SCALE))?;
    let scale = module.load_function("scale_f32")?;
    let before = stream.record_event(Some(cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    let (factor, len) = (3.0_f32, values.len() as u64);
    let mut launch = other.launch_builder(&scale);
    launch.arg(&data).arg(&mut output).arg(&factor).arg(&len);
    // SAFETY: the kernel's parameters are pointers to `len` elements each, the factor and `len`.
    unsafe { launch.launch(LaunchConfig::for_num_elems(1000)) }?;
    let after = other.record_event(Some(cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    let copy = output.try_clone()?;
    let scaled = stream.clone_dtoh(&copy)?;
    assert!(scaled.iter().zip(&values).all(|(scaled, value)| *scaled == value * 3.0));
    assert!(before.elapsed_ms(&after)? >= 0.0);

    let zeros = stream.alloc_zeros::<u8>(100)?;
    assert_eq!(stream.clone_dtoh(&zeros)?, [0; 100]);
    // SAFETY: the memory is written before it is read.
    let mut managed = unsafe { context.alloc_unified::<u32>(1000, true) }?;
    managed.as_mut_slice()?.fill(7);
    assert_eq!(stream.clone_dtoh(&managed)?, [7; 1000]);
    context.synchronize()?;
    println!("scaled {} elements", scaled.len());

    if let Some(kernel) = std::env::args().nth(1) {
        let source = SCALE.replace("scale_f32", &kernel);
        let module = context.load_module(Ptx::from_src(source))?;
        match module.load_function(&kernel) {
            Ok(_) => println!("{kernel}: found"),
            Err(error) => println!("{kernel}: {error:?}"),
        }
    }
    Ok(())
}
