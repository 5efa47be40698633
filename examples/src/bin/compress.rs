//! Compresses vectors as bf16, and compares two ways to the device: all bytes over the link, or the compressed ones and a kernel that
//! decodes them.

use clap::Parser;
use cuda_um::cost::at_rate;
use cuda_um::{DeviceBuffer, PinnedBuffer};
use half::bf16;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use um_examples::Failure;
use um_examples::machine::{Machine, MachineArgs, median, run_on, us};
use um_examples::npy::read_matrix;
use um_examples::shipped::ShippedSet;
use um_kernels::Bf16Decode;

/// Compresses vectors as bf16, and compares the ways to the device
#[derive(Debug, Parser)]
#[command(name = "compress", version)]
struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    /// Vectors: .npy, f32 or f16 [default: the targets of the shipped set]
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// Copies of the vectors, for longer measurements
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    copies: u32,
}

fn main() -> ExitCode {
    let args = Args::parse();
    run_on(args.machine.runtime, "compress", |machine| {
        print!("{}", run(&args, machine)?);
        Ok(())
    })
}

fn run(args: &Args, machine: &Machine) -> Result<String, Failure> {
    let file = match &args.vectors {
        Some(file) => file.clone(),
        None => ShippedSet::find().folder.join("targets.npy"),
    };
    let values: Vec<bf16> = (read_matrix(&file)?.into_f32().into_iter())
        .map(bf16::from_f32)
        .collect();
    let values = values.repeat(args.copies as usize);
    let bytes = 2 * values.len() as u64;
    let (encode, compressed) = best_of(|| cuda_um_codec::compress(&values))?;
    let mut decoded = vec![bf16::ZERO; values.len()];
    let (decode, ()) = best_of(|| compressed.decompress_into(&mut decoded))?;
    check(&decoded, &values)?;

    let device = machine.device();
    let stream = device.stream()?;
    let kernel = Bf16Decode::load(device)?;
    let raw = PinnedBuffer::from_slice(device, &values)?;
    let packed = PinnedBuffer::from_slice(device, compressed.words())?;
    let mut words = DeviceBuffer::<u32>::zeroed(device, compressed.words().len())?;
    let mut target = DeviceBuffer::<bf16>::zeroed(device, values.len())?;
    stream.synchronize()?;
    let times = |mut work: Box<dyn FnMut() -> Result<(), Failure> + '_>| {
        let times = (0..7).map(|_| machine.time(&mut work));
        times.collect::<Result<Vec<_>, _>>().map(median)
    };
    let plain = times(Box::new(|| {
        stream.copy(&raw, &mut target)?;
        Ok(stream.synchronize()?)
    }))?;
    let coded = times(Box::new(|| {
        stream.copy(&packed, &mut words)?;
        kernel.launch(&stream, &words, &mut target)?;
        Ok(stream.synchronize()?)
    }))?;
    let only = times(Box::new(|| {
        kernel.launch(&stream, &words, &mut target)?;
        Ok(stream.synchronize()?)
    }))?;
    check(&target.to_vec()?, &values)?;

    let link = device.cost_model().pinned_rate;
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    let saved = at_rate((bytes as f64 * (1.0 - compressed.ratio())) as u64, link);
    Ok(format!(
        "{}\n{} elements, {:.1} MiB as bf16; compressed to {:.4} of it\n\
         on the CPU: encoder {:.2} GB/s, decoder {:.2} GB/s of bf16\n\
         to the device: plain {}, compressed and decoded {} (ratio {:.3}); the kernel alone {}\n\
         the link saves {}, so the kernel pays if it decodes more than {:.0} GB/s of bf16\n",
        machine.describe(),
        values.len(),
        bytes as f64 / f64::from(1 << 20),
        compressed.ratio(),
        rate(encode),
        rate(decode),
        us(plain),
        us(coded),
        plain.as_secs_f64() / coded.as_secs_f64(),
        us(only),
        us(saved),
        rate(saved),
    ))
}

/// The shortest of a few times, by the wall clock, and the last result.
fn best_of<R, E: Into<Failure>>(
    mut work: impl FnMut() -> Result<R, E>,
) -> Result<(Duration, R), Failure> {
    let mut best = Duration::MAX;
    let mut run = || {
        let start = Instant::now();
        let result = work().map_err(Into::into)?;
        best = best.min(start.elapsed());
        Ok::<_, Failure>(result)
    };
    for _ in 0..4 {
        run()?;
    }
    let result = run()?;
    Ok((best, result))
}

fn check(found: &[bf16], expected: &[bf16]) -> Result<(), Failure> {
    let mut pairs = found.iter().zip(expected);
    match pairs.position(|(found, expected)| found.to_bits() != expected.to_bits()) {
        None => Ok(()),
        Some(at) => Err(format!("element {at} is wrong").into()),
    }
}
