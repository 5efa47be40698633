//! A kernel of cuTile and one of `unsafe` cuda-core on unified memory: the host writes the inputs and reads the results in place.
//!
//! `saxpy [--simulator] [KERNELS]`: on a GPU, cuTile needs `tileiras` of CUDA 13.2 or newer, or its output in the folder KERNELS. The simulator
//! executes PTX, but no native code, so the launch of cuTile's kernel ends with an error there.
#![allow(
    unsafe_code,
    missing_docs,
    reason = "launches a kernel of PTX; code of cuTile's macro"
)]

use cuda_core::{Context, LaunchConfig, launch_kernel_on_stream};
use cuda_um::{Location, Runtime, UnifiedBuffer};
use cutile::cutile_compiler::jit_cache::{self, FileSystemJitStore};
use cutile::prelude::*;
use std::error::Error;
use std::io::{self, Write, stdout};
use std::process::ExitCode;
use std::time::Instant;
use um_cuda_core::SharedContext;

#[cutile::module]
mod kernels {
    use cutile::core::*;

    #[cutile::entry()]
    fn saxpy<const B: [i32; 1]>(y: &mut Tensor<f32, B>, a: f32, x: &Tensor<f32, { [-1] }>) {
        let product = a.broadcast(y.shape()) * load_tile_like(x, y);
        let sum = product + y.load();
        y.store(sum);
    }
}

const LEN: usize = 1 << 22;

fn main() -> ExitCode {
    let Err(error) = run() else {
        return ExitCode::SUCCESS;
    };
    // The reader closed the pipe (`| head`).
    let error_of_io = error.downcast_ref::<io::Error>();
    if error_of_io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // Standard error may be closed, too.
    let _ = writeln!(io::stderr(), "saxpy: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_simulated = arguments.next_if_eq("--simulator").is_some();
    if let Some(folder) = arguments.next() {
        jit_cache::enable(Arc::new(FileSystemJitStore::builder(folder).open()?));
    }
    let context = Context::new(0)?;
    let shared = SharedContext::new(&context, &Runtime::open()?)?;
    let stream = shared.adopt(&context.new_stream()?)?;
    let zeroed = || UnifiedBuffer::<f32>::zeroed(shared.device(), LEN);
    let (mut x, mut y) = (stream.share(zeroed()?)?, stream.share(zeroed()?)?);

    // In place, without a copy.
    for (index, element) in stream.host_mut(&mut x)?.iter_mut().enumerate() {
        *element = (index % 1000) as f32;
    }
    for buffer in [&mut x, &mut y] {
        let device = Location::from(shared.device());
        stream.with_mut(buffer, |view| {
            view.as_view().prefetch_on(device, stream.ours())
        })?;
    }

    // y = 2x, by a kernel of PTX.
    let module =
        context.load_module_from_ptx_src(include_str!("../../../kernels/ptx/scale.ptx"))?;
    let scale = module.load_function("scale_f32")?;
    let (mut from, mut to, mut factor, mut len) =
        (x.cu_deviceptr(), y.cu_deviceptr(), 2.0_f32, LEN as u64);
    let mut parameters = [
        (&raw mut from).cast(),
        (&raw mut to).cast(),
        (&raw mut factor).cast(),
        (&raw mut len).cast(),
    ];
    let LaunchConfig {
        grid_dim,
        block_dim,
        ..
    } = LaunchConfig::for_num_elems(LEN as u32);
    // SAFETY: the kernel's parameters; both buffers have `LEN` elements, and live until `host` has waited for the stream.
    unsafe {
        launch_kernel_on_stream(
            &scale,
            grid_dim,
            block_dim,
            0,
            stream.theirs(),
            &mut parameters,
        )
    }?;
    assert_eq!(stream.host(&y)?[1999], 1998.0);
    writeln!(stdout(), "cuda-core: y = 2x in unified memory")?;

    // y = 3x + y, by cuTile. Its tensors are the same memory.
    let x = Tensor::from_buffer(x, vec![LEN as i32]);
    let y = Tensor::from_buffer(y, vec![LEN as i32]).partition([1024]);
    let start = Instant::now();
    let launched = kernels::saxpy(y, 3.0, x).sync_on(stream.theirs());
    if is_simulated {
        let refused = launched.map(drop).unwrap_err().to_string();
        // CUDA_ERROR_NO_BINARY_FOR_GPU
        assert!(refused.contains("DriverError(209"), "{refused}");
        writeln!(stdout(), "cuTile: compiled, and refused by the simulator")?;
        return Ok(());
    }
    let (y, _, x) = launched?;
    let first = start.elapsed();
    let y = y.unpartition().into_buffer();
    assert_eq!(stream.host(&y)?[1999], 4995.0);
    writeln!(
        stdout(),
        "cuTile: y = 3x + y in unified memory, {first:?} with the compilation"
    )?;

    let mut y = Tensor::from_buffer(y, vec![LEN as i32]).partition([1024]);
    let mut x = x;
    for round in 1..=5 {
        let start = Instant::now();
        let (next, _, used) = kernels::saxpy(y, 1.0, x).sync_on(stream.theirs())?;
        let buffer = next.unpartition().into_buffer();
        let sum: f64 = stream
            .host(&buffer)?
            .iter()
            .map(|element| f64::from(*element))
            .sum();
        writeln!(
            stdout(),
            "round {round}: {:?} for the kernel and the host's sum {sum}",
            start.elapsed()
        )?;
        (x, y) = (
            used,
            Tensor::from_buffer(buffer, vec![LEN as i32]).partition([1024]),
        );
    }
    Ok(())
}
