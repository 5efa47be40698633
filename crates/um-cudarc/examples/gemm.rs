//! cuBLAS through cudarc on unified memory, beside cudarc's own memory: equal results, faults, times, and what is left at the end.
//!
//! `cargo build --release -p um-cudarc --example gemm` makes one file, which runs on a machine with a GPU and libcublas. Without libcublas it
//! leaves out the products: so it runs on the simulator, too.
#![allow(unsafe_code, reason = "calls cuBLAS and launches a kernel")]

use cuda_um::{Location, MemoryKind, PoolOptions, Runtime, UnifiedBuffer, resource::DriverPool};
use cuda_um_testkit::say;
use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, LaunchConfig,
    PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use um_cudarc::{SharedDevice, SharedStream};
use um_profile::MigrationCounter;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How often each time is taken; the table has the median.
const REPEATS: usize = 15;

fn main() -> Outcome {
    let context = CudaContext::new(0)?;
    let runtime = Runtime::open()?;
    let shared = SharedDevice::new(&context, &runtime)?;
    let stream = shared.adopt(&context.default_stream())?;
    say!("{}, CUDA {}", context.name()?, runtime.version());
    // SAFETY: only looks for the library.
    let blas = match unsafe { cudarc::cublas::sys::is_culib_present() } {
        true => Some(CudaBlas::new(context.default_stream())?),
        false => None,
    };
    let counter = MigrationCounter::start(&runtime);
    match &blas {
        Some(blas) => {
            let counter = counter.map_err(|error| say!("no counts of faults: {error}"));
            products_are_equal(&stream, blas)?;
            faults(&stream, blas, counter.as_ref().ok())?;
            drop(counter);
            say!("{HEAD}");
            for n in [1024, 2048, 4096] {
                times(&stream, blas, n)?;
            }
        }
        None => say!("no libcublas: the products are left out"),
    }
    drops(&shared, &stream)?;
    let module = context.load_module(Ptx::from_src(include_str!(
        "../../../kernels/ptx/scale.ptx"
    )))?;
    let scale = module.load_function("scale_f32")?;
    launches(&stream, &scale, "one stream")?;
    let several = shared.adopt(&context.new_stream()?)?;
    launches(&several, &scale, "several streams")?;
    context.synchronize()?;
    context.check_err()?;
    say!("the context has no error");
    Ok(())
}

/// Numbers with all bits of a `f32`'s fraction.
fn matrix(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state as f32 / u32::MAX as f32 - 0.5
    };
    (0..n * n).map(next).collect()
}

/// `c = a × b`, column by column.
fn multiply(
    blas: &CudaBlas,
    n: usize,
    a: &impl DevicePtr<f32>,
    b: &impl DevicePtr<f32>,
    c: &mut impl DevicePtrMut<f32>,
) -> Outcome {
    let side = i32::try_from(n)?;
    let config = GemmConfig {
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
    // SAFETY: the matrices have n × n elements.
    Ok(unsafe { blas.gemm(config, a, b, c) }?)
}

fn same_bits(left: &[f32], right: &[f32]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|(left, right)| left.to_bits() == right.to_bits())
}

fn products_are_equal(stream: &SharedStream, blas: &CudaBlas) -> Outcome {
    let (device, theirs) = (stream.device().device(), stream.theirs());
    for n in [64, 1000, 2048] {
        let (a, b) = (matrix(n, 1), matrix(n, 2));
        let own = {
            let (a, b) = (theirs.clone_htod(&a)?, theirs.clone_htod(&b)?);
            let mut c = theirs.alloc_zeros::<f32>(n * n)?;
            multiply(blas, n, &a, &b, &mut c)?;
            theirs.clone_dtoh(&c)?
        };
        let unified = {
            let a = stream.share(UnifiedBuffer::from_slice(device, &a)?)?;
            let b = stream.share(UnifiedBuffer::from_slice(device, &b)?)?;
            let mut c = stream.share(UnifiedBuffer::<f32>::zeroed(device, n * n)?)?;
            multiply(blas, n, &a, &b, &mut c)?;
            c.into_buffer()?.to_vec()?
        };
        let pool = DriverPool::new(device, MemoryKind::Managed, PoolOptions::default())?;
        let given = |elements: &[f32]| -> Outcome<CudaSlice<f32>> {
            let buffer = UnifiedBuffer::from_slice_in(&pool, elements)?;
            Ok(stream.give(buffer).map_err(|(_, error)| error)?)
        };
        let managed = {
            let (a, b, mut c) = (given(&a)?, given(&b)?, given(&vec![0.0; n * n])?);
            multiply(blas, n, &a, &b, &mut c)?;
            stream.device().host(&c)?.to_vec()
        };
        stream.device().context().synchronize()?;
        let (unified, managed) = (same_bits(&own, &unified), same_bits(&own, &managed));
        say!(
            "product {n} x {n}: unified buffers bit-equal {unified}, managed slices bit-equal {managed}"
        );
        assert!(unified && managed);
    }
    Ok(())
}

/// `host_mut → gemm → host`, with a prefetch before each.
fn faults(stream: &SharedStream, blas: &CudaBlas, counter: Option<&MigrationCounter>) -> Outcome {
    let (n, device) = (2048, stream.device().device());
    let matrices =
        || -> Outcome<_> { Ok(stream.share(UnifiedBuffer::<f32>::zeroed(device, n * n)?)?) };
    let (mut a, mut b, mut c) = (matrices()?, matrices()?, matrices()?);
    stream.device().context().synchronize()?;
    let before = counter.map(MigrationCounter::read).transpose()?;
    for input in [&mut a, &mut b] {
        input.prefetch_on(Location::Host, stream.ours())?;
        input.host_mut()?.fill(0.5);
        input.prefetch_on(Location::from(device), stream.ours())?;
    }
    c.prefetch_on(Location::from(device), stream.ours())?;
    multiply(blas, n, &a, &b, &mut c)?;
    c.prefetch_on(Location::Host, stream.ours())?;
    assert!(c.host()?.iter().all(|value| *value == 0.25 * n as f32));
    if let (Some(before), Some(after)) = (before, counter.map(MigrationCounter::read).transpose()?)
    {
        say!(
            "host_mut, gemm, host {n} x {n}, prefetched: {} faults of the GPU, {} of the CPU, {} MiB to the device, {} MiB to the host",
            after.gpu_faults - before.gpu_faults,
            after.cpu_faults - before.cpu_faults,
            (after.bytes_to_device - before.bytes_to_device) >> 20,
            (after.bytes_to_host - before.bytes_to_host) >> 20,
        );
    }
    Ok(())
}

fn median(mut once: impl FnMut() -> Outcome) -> Outcome<Duration> {
    once()?;
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let start = Instant::now();
        once()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[REPEATS / 2])
}

/// The host's own work: it writes the elements of the inputs, and reads those of the product.
fn produce(elements: &mut [f32]) {
    for (index, element) in elements.iter_mut().enumerate() {
        *element = index as f32;
    }
}

fn consume(elements: &[f32]) {
    black_box(elements.iter().copied().fold(0.0, f32::max));
}

/// The host writes both inputs, cuBLAS multiplies, and the host reads the product: a row of the table.
fn times(stream: &SharedStream, blas: &CudaBlas, n: usize) -> Outcome {
    let [copied, staged, host, gemm] = with_copies(stream, blas, n)?;
    let [in_place, overwritten] = with_unified(stream, blas, n)?;
    let row =
        [host, gemm, copied, staged, in_place, overwritten].map(|time| format!("{:>12.2?}", time));
    say!("{n:>5} {:>4} MiB {}", n * n * 4 / (1 << 20), row.concat());
    Ok(())
}

const HEAD: &str =
    "   n   a matrix  host alone  gemm alone  htod, dtoh   staged htod   host_mut  host_overwrite";

fn with_copies(stream: &SharedStream, blas: &CudaBlas, n: usize) -> Outcome<[Duration; 4]> {
    let theirs = stream.theirs();
    let mut host = [(); 3].map(|()| vec![0.0; n * n]);
    let [host_a, host_b, host_c] = &mut host;
    let zeros = || theirs.alloc_zeros::<f32>(n * n);
    let (a, b, c) = (&mut zeros()?, &mut zeros()?, &mut zeros()?);
    let copied = median(|| {
        produce(host_a);
        produce(host_b);
        theirs.memcpy_htod(host_a, a)?;
        theirs.memcpy_htod(host_b, b)?;
        multiply(blas, n, a, b, c)?;
        theirs.memcpy_dtoh(c, host_c)?;
        theirs.synchronize()?;
        consume(host_c);
        Ok(())
    })?;
    let staged = median(|| {
        produce(host_a);
        produce(host_b);
        stream.memcpy_htod_staged(host_a, a)?;
        stream.memcpy_htod_staged(host_b, b)?;
        multiply(blas, n, a, b, c)?;
        theirs.memcpy_dtoh(c, host_c)?;
        theirs.synchronize()?;
        consume(host_c);
        Ok(())
    })?;
    let alone = median(|| {
        produce(host_a);
        produce(host_b);
        consume(host_c);
        Ok(())
    })?;
    let gemm = median(|| {
        multiply(blas, n, a, b, c)?;
        Ok(theirs.synchronize()?)
    })?;
    Ok([copied, staged, alone, gemm])
}

fn with_unified(stream: &SharedStream, blas: &CudaBlas, n: usize) -> Outcome<[Duration; 2]> {
    let device = stream.device().device();
    let zeroed =
        || -> Outcome<_> { Ok(stream.share(UnifiedBuffer::<f32>::zeroed(device, n * n)?)?) };
    let (mut a, mut b, mut c) = (zeroed()?, zeroed()?, zeroed()?);
    let in_place = median(|| {
        for input in [&mut a, &mut b] {
            input.prefetch_on(Location::Host, stream.ours())?;
            produce(&mut input.host_mut()?);
            input.prefetch_on(Location::from(device), stream.ours())?;
        }
        c.prefetch_on(Location::from(device), stream.ours())?;
        multiply(blas, n, &a, &b, &mut c)?;
        c.prefetch_on(Location::Host, stream.ours())?;
        consume(&c.host()?);
        Ok(())
    })?;
    // The old elements do not come to the host, and several threads make the new ones.
    let overwritten = median(|| {
        for input in [&mut a, &mut b] {
            input.with_mut(|mut view| {
                view.host_overwrite(.., |first, slots| slots.fill_with(|i| (first + i) as f32))
            })?;
        }
        c.prefetch_on(Location::from(device), stream.ours())?;
        multiply(blas, n, &a, &b, &mut c)?;
        c.prefetch_on(Location::Host, stream.ours())?;
        consume(&c.host()?);
        Ok(())
    })?;
    Ok([in_place, overwritten])
}

/// Makes and drops many tensors of both kinds, each after a use by cudarc.
fn drops(shared: &SharedDevice, stream: &SharedStream) -> Outcome {
    const TENSORS: usize = 100_000;
    const LEN: usize = 1024;
    let (device, theirs) = (shared.device(), stream.theirs());
    let pool = DriverPool::new(device, MemoryKind::Managed, PoolOptions::default())?;
    let start = Instant::now();
    for _ in 0..TENSORS {
        let buffer = UnifiedBuffer::<f32>::zeroed_in(&pool, LEN)?;
        let mut slice = stream.give(buffer).map_err(|(_, error)| error)?;
        theirs.memset_zeros(&mut slice)?;
    }
    shared.context().synchronize()?;
    let given = start.elapsed();
    let start = Instant::now();
    for _ in 0..TENSORS {
        let mut slice = stream.share(UnifiedBuffer::<f32>::zeroed(device, LEN)?)?;
        theirs.memset_zeros(&mut slice)?;
    }
    shared.context().synchronize()?;
    let lent = start.elapsed();
    shared.context().check_err()?;
    let kept = pool.stats();
    pool.trim();
    let left = pool.stats();
    say!(
        "{TENSORS} managed slices dropped ({:.2?} each) and {TENSORS} unified slices ({:.2?} each): the driver's pool kept {} bytes, and after a \
         trim {}",
        given / TENSORS as u32,
        lent / TENSORS as u32,
        kept.reserved_bytes,
        left.reserved_bytes
    );
    device.trim();
    assert_eq!((left.live_bytes, left.reserved_bytes), (0, 0));
    Ok(())
}

/// The host's time of a launch with slices of cudarc and with buffers.
fn launches(stream: &SharedStream, scale: &CudaFunction, mode: &str) -> Outcome {
    const LAUNCHES: u32 = 5_000;
    let (device, theirs) = (stream.device().device(), stream.theirs());
    let launch =
        |theirs: &Arc<CudaStream>, run: &mut dyn FnMut() -> Outcome| -> Outcome<Duration> {
            let start = Instant::now();
            for _ in 0..LAUNCHES {
                run()?;
            }
            let took = start.elapsed() / LAUNCHES;
            theirs.synchronize()?;
            Ok(took)
        };
    let config = LaunchConfig::for_num_elems(32);
    let (factor, len) = (2.0_f32, 32_u64);
    let (a, mut b) = (
        theirs.alloc_zeros::<f32>(32)?,
        theirs.alloc_zeros::<f32>(32)?,
    );
    let ours_a = stream.share(UnifiedBuffer::<f32>::zeroed(device, 32)?)?;
    let mut ours_b = stream.share(UnifiedBuffer::<f32>::zeroed(device, 32)?)?;
    let (mut own, mut ours) = (Vec::new(), Vec::new());
    // By turns, so that both meet the same clocks.
    for _ in 0..REPEATS {
        own.push(launch(theirs, &mut || {
            let mut builder = theirs.launch_builder(scale);
            builder.arg(&a).arg(&mut b).arg(&factor).arg(&len);
            // SAFETY: the kernel's parameters; both arrays have 32 elements.
            Ok(unsafe { builder.launch(config) }.map(drop)?)
        })?);
        ours.push(launch(theirs, &mut || {
            let mut builder = theirs.launch_builder(scale);
            builder.arg(&ours_a).arg(&mut ours_b).arg(&factor).arg(&len);
            // SAFETY: as above.
            Ok(unsafe { builder.launch(config) }.map(drop)?)
        })?);
    }
    own.sort();
    ours.sort();
    let (own, ours) = (own[REPEATS / 2], ours[REPEATS / 2]);
    say!(
        "a launch, {mode}: {} ns with cudarc's slices, {} ns with unified slices",
        own.as_nanos(),
        ours.as_nanos()
    );
    Ok(())
}
