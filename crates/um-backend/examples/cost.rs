//! The cost of `dyn Buffer`, of erased buffers and of shared storage, beside typed ones: the median of a call, in nanoseconds.
//!
//! `cargo run --release -p um-backend --example cost`, on a GPU or on the simulator (`CUDA_UM_RUNTIME`).

use std::time::Instant;

use cuda_um_testkit::say;
use um_backend::kernels::Scale;
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaError, DType, HostBuffer, PinnedBuffer,
    SharedBuffer,
};

const ROUNDS: usize = 400;
const CALLS: usize = 50;
const LEN: usize = 64;

/// One way to make the call.
type Way<'a> = (&'a str, Box<dyn FnMut() -> Result<(), CudaError> + 'a>);

/// Measures the ways in turn, so that all of them see the same machine.
fn compare(
    title: &str,
    ways: &mut [Way<'_>],
    wait: impl Fn() -> Result<(), CudaError>,
) -> Result<(), CudaError> {
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, call), times) in ways.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..CALLS {
                call()?;
            }
            times.push(start.elapsed().as_nanos() as f64 / CALLS as f64);
            wait()?;
        }
    }
    for ((name, _), times) in ways.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        say!("{title}, {name}: {:.0} ns", times[ROUNDS / 2]);
    }
    Ok(())
}

fn main() -> Result<(), CudaError> {
    let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    say!("{}", backend.runtime_description());
    let (device, stream) = (backend.device(), backend.device().stream());
    let scale = Scale::load(device)?;
    let input = backend.create_buffer::<f32>(LEN, DType::F32)?;
    let mut output = backend.create_buffer::<f32>(LEN, DType::F32)?;
    let behind_dyn = backend.create::<f32>(BufferKind::Cuda, LEN)?;
    let mut out_dyn = backend.create::<f32>(BufferKind::Cuda, LEN)?;
    let erased = backend.create_erased(BufferKind::Cuda, DType::F32, LEN)?;
    let mut out_erased = backend.create_erased(BufferKind::Cuda, DType::F32, LEN)?;
    let shared = SharedBuffer::new(backend.create_erased(BufferKind::Cuda, DType::F32, LEN)?);
    let out_shared = SharedBuffer::new(shared.read()?.clone_empty(LEN)?);
    let mut ways: [Way<'_>; 4] = [
        (
            "typed",
            Box::new(|| scale.launch(stream, &input, &mut output, 2.0)),
        ),
        (
            "dyn Buffer",
            Box::new(|| scale.launch(stream, &*behind_dyn, &mut *out_dyn, 2.0)),
        ),
        (
            "erased",
            Box::new(|| scale.launch(stream, &erased, &mut out_erased, 2.0)),
        ),
        (
            "two guards of shared storage",
            Box::new(|| {
                let (input, mut output) = (shared.read()?, out_shared.write()?);
                scale.launch(stream, &input, &mut output, 2.0)
            }),
        ),
    ];
    compare("launch", &mut ways, || backend.synchronize())?;

    let elements = [1.0f32; LEN];
    let bytes: &[u8] = bytemuck::cast_slice(&elements);
    let mut host = HostBuffer::<f32>::zeroed(LEN)?;
    let mut host_erased = backend.create_erased(BufferKind::Host, DType::F32, LEN)?;
    let mut ways: [Way<'_>; 2] = [
        ("typed", Box::new(|| host.copy_from_host(&elements))),
        (
            "erased",
            Box::new(|| host_erased.bytes_mut().copy_from_host(bytes)),
        ),
    ];
    compare("copy in host memory", &mut ways, || Ok(()))?;

    let mut pinned = PinnedBuffer::<f32>::zeroed(backend.device(), LEN)?;
    let mut pinned_erased = backend.create_erased(BufferKind::Pinned, DType::F32, LEN)?;
    let mut ways: [Way<'_>; 2] = [
        ("typed", Box::new(|| pinned.copy_from_host(&elements))),
        (
            "erased",
            Box::new(|| pinned_erased.bytes_mut().copy_from_host(bytes)),
        ),
    ];
    compare("copy to pinned memory", &mut ways, || Ok(()))
}
