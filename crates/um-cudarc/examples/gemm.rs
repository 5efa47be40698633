//! A product of matrices and its norm by cuBLAS, over unified buffers that the host writes and reads in place.
//!
//! `cargo run -p um-cudarc --example gemm` needs a GPU and libcublas. Without libcublas there is nothing to multiply with.
#![allow(unsafe_code, reason = "calls cuBLAS")]

use cuda_um::{Location, Runtime, UnifiedBuffer};
use cuda_um_testkit::say;
use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig, sys};
use cudarc::driver::{CudaContext, DevicePtr};
use std::error::Error;
use um_cudarc::SharedDevice;

/// Rows and columns.
const N: usize = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let shared = SharedDevice::new(&context, &Runtime::open()?)?;
    let (device, stream) = (shared.device(), shared.adopt(&context.default_stream())?);
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        say!("no libcublas");
        return Ok(());
    }
    let blas = CudaBlas::new(context.default_stream())?;
    let matrix = || -> Result<_, Box<dyn Error>> {
        Ok(stream.share(UnifiedBuffer::<f32>::zeroed(device, N * N)?)?)
    };
    let (mut a, mut b, mut c) = (matrix()?, matrix()?, matrix()?);
    a.host_mut()?.fill(0.5);
    b.host_mut()?.fill(0.25);
    for input in [&a, &b] {
        input.prefetch_on(Location::from(device), stream.ours())?;
    }

    let side = N as i32;
    let product = GemmConfig {
        transa: CUBLAS_OP_N,
        transb: CUBLAS_OP_N,
        m: side,
        n: side,
        k: side,
        alpha: 1.0,
        lda: side,
        ldb: side,
        beta: 0.0,
        ldc: side,
    };
    // SAFETY: the matrices have N × N elements.
    unsafe { blas.gemm(product, &a, &b, &mut c) }?;
    let mut norm = 0.0;
    let (address, used) = c.device_ptr(stream.theirs());
    // SAFETY: the array has N × N elements, and the call returns when the norm is written.
    unsafe {
        sys::cublasSnrm2_v2(
            *blas.handle(),
            side * side,
            address as *const f32,
            1,
            &mut norm,
        )
    }
    .result()?;
    drop(used);

    let element = 0.5 * 0.25 * N as f32;
    c.prefetch_on(Location::Host, stream.ours())?;
    assert!(c.host()?.iter().all(|found| *found == element));
    assert!((norm / (element * N as f32) - 1.0).abs() < 1e-5, "{norm}");
    say!("{N} x {N}: each element is {element}, the norm is {norm}");
    Ok(())
}
