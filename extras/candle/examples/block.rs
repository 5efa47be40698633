//! A transformer block of candle with weights in unified memory, beside the same block with candle's own: equal results, times, a profile that
//! names the weights, page faults, and what is left at the end.
//!
//! `cargo xtask gpu-bundle --extras` packs it for a machine with a GPU; `./env cargo run` runs it with `--small` over the simulator.

use candle_core::{D, Device, Result as CandleResult, Tensor};
use candle_nn::ops::{layer_norm, softmax_last_dim};
use cuda_um::{Location, Runtime};
use cuda_um_trace::MigrationReport;
use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use um_candle::{Named, UnifiedDevice};
use um_profile::{MigrationCounter, Profiler};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const HEADS: usize = 16;

/// The sizes of a run.
struct Size {
    tokens: usize,
    width: usize,
    /// The side of the matrices between the host's accesses.
    side: usize,
    /// How often each time is taken; the output has the medians.
    repeats: usize,
    drops: usize,
}

const USUAL: Size = Size {
    tokens: 512,
    width: 1024,
    side: 1024,
    repeats: 31,
    drops: 100_000,
};

const SMALL: Size = Size {
    tokens: 4,
    width: 32,
    side: 32,
    repeats: 1,
    drops: 1000,
};

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
    let _ = writeln!(io::stderr(), "block: {error}");
    ExitCode::FAILURE
}

fn run() -> Outcome {
    let has = |option: &str| std::env::args().any(|argument| argument == option);
    let size = if has("--small") { SMALL } else { USUAL };
    let candle = Device::new_cuda_with_stream(0)?;
    let runtime = Runtime::open()?;
    let unified = UnifiedDevice::new(&candle, &runtime)?;
    writeln!(
        stdout(),
        "{}, CUDA {}",
        unified.ours().name(),
        runtime.version()
    )?;
    let input = random((size.tokens, size.width), 1, &candle)?;
    let own = Block::new(size.width, &candle)?;
    // First: CUPTI does not report memory that was allocated before.
    let weights = profile(&runtime, &unified, &own, &input)?;
    equal_operations(&unified, &input)?;
    equal_blocks(&candle, &own, &weights, &input, size.repeats)?;
    drop(weights);
    host_product_host(&runtime, &unified, &size)?;
    drops(&unified, size.drops)?;
    candle.synchronize()?;
    unified.candle().cuda_stream().context().check_err()?;
    writeln!(stdout(), "the context has no error")?;
    Ok(())
}

/// Numbers with all bits of a `f32`'s fraction.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 24) as f32 - 0.5) * 0.1
    };
    (0..count).map(next).collect()
}

fn random(shape: (usize, usize), seed: u32, device: &Device) -> CandleResult<Tensor> {
    Tensor::from_vec(numbers(shape.0 * shape.1, seed), shape, device)
}

/// The weights of a block, and its operations.
struct Block {
    /// Scale and shift of both layer norms.
    norms: [Tensor; 4],
    /// Queries, keys and values; the output of the attention; both layers of the perceptron.
    matrices: [Tensor; 4],
}

const NAMES: [&str; 4] = ["qkv", "attention", "expand", "contract"];

impl Block {
    fn new(width: usize, device: &Device) -> CandleResult<Self> {
        let row = |seed| random((1, width), seed, device)?.flatten_all();
        let matrix = |columns, rows, seed| random((columns, rows), seed, device);
        Ok(Self {
            norms: [row(2)?, row(3)?, row(4)?, row(5)?],
            matrices: [
                matrix(width, 3 * width, 6)?,
                matrix(width, width, 7)?,
                matrix(width, 4 * width, 8)?,
                matrix(4 * width, width, 9)?,
            ],
        })
    }

    /// The same weights in unified memory, on the device.
    fn unified(&self, unified: &UnifiedDevice) -> Outcome<Self> {
        let copy = |tensor: &Tensor| -> um_candle::Result<Tensor> {
            let copy = unified.copy(tensor)?;
            unified.prefetch(&copy, Location::from(unified.ours()))?;
            Ok(copy)
        };
        let ([a, b, c, d], [e, f, g, h]) = (&self.norms, &self.matrices);
        Ok(Self {
            norms: [copy(a)?, copy(b)?, copy(c)?, copy(d)?],
            matrices: [copy(e)?, copy(f)?, copy(g)?, copy(h)?],
        })
    }

    fn forward(&self, input: &Tensor) -> CandleResult<Tensor> {
        let [scale, shift, scale_2, shift_2] = &self.norms;
        let [qkv, attention, expand, contract] = &self.matrices;
        let (tokens, width) = input.dims2()?;
        let heads = layer_norm(input, scale, shift, 1e-5)?.matmul(qkv)?;
        let heads = heads.reshape((tokens, 3, HEADS, width / HEADS))?;
        let of = |index| {
            heads
                .narrow(1, index, 1)?
                .squeeze(1)?
                .transpose(0, 1)?
                .contiguous()
        };
        let (queries, keys, values) = (of(0)?, of(1)?, of(2)?);
        let scores = (queries.matmul(&keys.t()?)? / ((width / HEADS) as f64).sqrt())?;
        let mixed = softmax_last_dim(&scores)?.matmul(&values)?;
        let mixed = mixed
            .transpose(0, 1)?
            .contiguous()?
            .flatten_from(D::Minus2)?;
        let input = (input + mixed.matmul(attention)?)?;
        let hidden = layer_norm(&input, scale_2, shift_2, 1e-5)?
            .matmul(expand)?
            .gelu()?;
        input + hidden.matmul(contract)?
    }
}

fn same_bits(left: &Tensor, right: &Tensor) -> CandleResult<bool> {
    let elements = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<f32>();
    let (left, right) = (elements(left)?, elements(right)?);
    let mut pairs = left.iter().zip(&right);
    Ok(left.len() == right.len() && pairs.all(|(left, right)| left.to_bits() == right.to_bits()))
}

/// A profile of a pass whose weights have names.
fn profile(
    runtime: &Runtime,
    unified: &UnifiedDevice,
    own: &Block,
    input: &Tensor,
) -> Outcome<Block> {
    let profiler = match Profiler::start(runtime) {
        Ok(profiler) => profiler,
        Err(error) => {
            writeln!(stdout(), "no profile: {error}")?;
            return own.unified(unified);
        }
    };
    let block = own.unified(unified)?;
    let named = block.matrices.iter().zip(NAMES);
    let named: Vec<Named> = named
        .map(|(tensor, name)| unified.name(tensor, name))
        .collect::<um_candle::Result<_>>()?;
    // The host changes a weight in place and does not prefetch it: the profile shows the page faults.
    unified.host_mut(&block.matrices[1], |elements: &mut [f32]| {
        elements[0] += 0.0
    })?;
    block.forward(input)?.device().synchronize()?;
    let trace = profiler.stop()?;
    for name in NAMES {
        assert!(
            trace.buffers.iter().any(|buffer| buffer.name == name),
            "{name} is in the profile"
        );
    }
    drop(named);
    writeln!(
        stdout(),
        "{}",
        MigrationReport::of(&trace, &unified.ours().cost_model())
    )?;
    Ok(block)
}

fn equal_operations(unified: &UnifiedDevice, input: &Tensor) -> Outcome {
    let (device, width) = (input.device(), input.dim(1)?);
    let (other, row) = (
        random((width, width), 10, device)?,
        random((1, width), 11, device)?.flatten_all()?,
    );
    let (input_2, other_2, row_2) = (
        unified.copy(input)?,
        unified.copy(&other)?,
        unified.copy(&row)?,
    );
    let pairs = [
        ("matmul", input.matmul(&other)?, input_2.matmul(&other_2)?),
        (
            "softmax",
            softmax_last_dim(input)?,
            softmax_last_dim(&input_2)?,
        ),
        (
            "layer norm",
            layer_norm(input, &row, &row, 1e-5)?,
            layer_norm(&input_2, &row_2, &row_2, 1e-5)?,
        ),
    ];
    for (name, own, of_unified) in pairs {
        let equal = same_bits(&own, &of_unified)?;
        writeln!(stdout(), "{name} of unified tensors: bit-equal {equal}")?;
        assert!(equal);
    }
    Ok(())
}

fn equal_blocks(
    candle: &Device,
    own: &Block,
    unified: &Block,
    input: &Tensor,
    repeats: usize,
) -> Outcome {
    let equal = same_bits(&own.forward(input)?, &unified.forward(input)?)?;
    writeln!(stdout(), "block with unified weights: bit-equal {equal}")?;
    assert!(equal);
    let pass = |block: &Block| -> Outcome<Duration> {
        let start = Instant::now();
        for _ in 0..10 {
            black_box(block.forward(input)?);
        }
        candle.synchronize()?;
        Ok(start.elapsed() / 10)
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..repeats {
        times[0].push(pass(own)?);
        times[1].push(pass(unified)?);
    }
    let [own, unified] = times.map(median);
    let ratio = unified.as_secs_f64() / own.as_secs_f64();
    writeln!(
        stdout(),
        "block: {own:.2?} with candle's weights, {unified:.2?} with unified weights, ratio {ratio:.3}"
    )?;
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The host writes a matrix, candle multiplies it, and the host reads the product: in place, and with `to_device` and `to_vec`.
fn host_product_host(runtime: &Runtime, unified: &UnifiedDevice, size: &Size) -> Outcome {
    let n = size.side;
    let (device, here) = (
        Device::Cuda(unified.candle().clone()),
        Location::from(unified.ours()),
    );
    let (right, repeats) = (random((n, n), 12, &device)?, size.repeats);
    let (input, output) = (unified.zeros::<f32>((n, n))?, unified.zeros::<f32>((n, n))?);
    let in_place = || -> Outcome<f32> {
        unified.prefetch(&input, Location::Host)?;
        unified.host_mut(&input, produce)?;
        unified.prefetch(&input, here)?;
        unified.prefetch(&output, here)?;
        output.slice_set(&input.matmul(&right)?, 0, 0)?;
        unified.prefetch(&output, Location::Host)?;
        Ok(unified.host(&output, consume)?)
    };
    let mut memory = vec![0.0; n * n];
    let mut copied = || -> Outcome<f32> {
        produce(&mut memory);
        let input = Tensor::from_slice(&memory, (n, n), &Device::Cpu)?.to_device(&device)?;
        let product = input.matmul(&right)?.flatten_all()?.to_vec1::<f32>()?;
        Ok(consume(&product))
    };
    assert_eq!(in_place()?, copied()?);
    match MigrationCounter::start(runtime) {
        Err(error) => writeln!(stdout(), "no counts of faults: {error}")?,
        Ok(counter) => {
            let before = counter.read()?;
            in_place()?;
            let after = counter.read()?;
            writeln!(
                stdout(),
                "host_mut, matmul, host {n} x {n}, prefetched: {} faults of the GPU, {} of the CPU, {} MiB to the device, {} MiB to the host",
                after.gpu_faults - before.gpu_faults,
                after.cpu_faults - before.cpu_faults,
                (after.bytes_to_device - before.bytes_to_device) >> 20,
                (after.bytes_to_host - before.bytes_to_host) >> 20,
            )?;
        }
    }
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..repeats {
        let start = Instant::now();
        in_place()?;
        times[0].push(start.elapsed());
        let start = Instant::now();
        copied()?;
        times[1].push(start.elapsed());
    }
    let [in_place, copied] = times.map(median);
    writeln!(
        stdout(),
        "host, matmul, host {n} x {n}: {in_place:.2?} in place, {copied:.2?} with to_device and to_vec"
    )?;
    Ok(())
}

fn produce(elements: &mut [f32]) {
    for (index, element) in elements.iter_mut().enumerate() {
        *element = (index % 100) as f32;
    }
}

fn consume(elements: &[f32]) -> f32 {
    black_box(elements.iter().copied().fold(0.0, f32::max))
}

fn drops(unified: &UnifiedDevice, count: usize) -> Outcome {
    let start = Instant::now();
    for _ in 0..count {
        black_box(unified.zeros::<f32>((64, 64))?);
    }
    unified.candle().cuda_stream().synchronize()?;
    let each = start.elapsed() / u32::try_from(count)?;
    let pool = unified.pool()?;
    let kept = pool.stats().reserved_bytes;
    pool.trim();
    let left = pool.stats().reserved_bytes;
    writeln!(
        stdout(),
        "{count} tensors made and dropped, {each:.2?} each: the pool kept {kept} bytes, and after a trim {left}"
    )?;
    Ok(())
}
