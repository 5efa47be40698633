//! Loads a file of weights to the GPU through um-weights and through candle's own loader, and prints both times.
//!
//! `cargo xtask gpu-bundle --extras` packs it for a machine with a GPU; `./env cargo run` runs it with `--small` over the simulator.
#![allow(unsafe_code, reason = "candle's own loader maps the file")]

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use std::error::Error;
use std::io::{self, BufWriter, Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use um_candle::LoadedWeights;
use um_weights::Weights;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

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
    let _ = writeln!(io::stderr(), "weights: {error}");
    ExitCode::FAILURE
}

fn run() -> Outcome {
    let is_small = std::env::args().any(|argument| argument == "--small");
    let device = Device::new_cuda_with_stream(0)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    // Layers of 4096 columns, and small tensors.
    for (what, count, shape) in [("matrices", 128, [4096, 4096]), ("rows", 20_000, [1, 4096])] {
        let count = if is_small { count / 64 } else { count };
        let bytes = write(&path, count, shape)?;
        let (ours, theirs) = measure(&path, (count, shape), &device)?;
        let speed = |times: &[Duration]| {
            let speeds = times
                .iter()
                .map(|time| bytes as f64 / time.as_secs_f64() / 1e9);
            speeds
                .map(|speed| format!("{speed:.2}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        writeln!(
            stdout(),
            "{count} {what} of bf16, {bytes} bytes: um-weights {} GB/s, candle {} GB/s",
            speed(&ours),
            speed(&theirs)
        )?;
    }
    Ok(())
}

/// Writes a file with so many tensors of bf16, and returns the size of their bytes.
fn write(path: &Path, count: usize, shape: [usize; 2]) -> Outcome<usize> {
    let bytes = 2 * shape[0] * shape[1];
    let entry = |number: usize| {
        let (start, end) = (number * bytes, (number + 1) * bytes);
        format!(
            r#""t{number}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        )
    };
    let header = format!(
        "{{{}}}",
        (0..count).map(entry).collect::<Vec<_>>().join(",")
    );
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut tensor: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    for number in 0..count {
        tensor[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&tensor)?;
    }
    file.flush()?;
    Ok(count * bytes)
}

/// The times of both loaders. All tensors are compared on the host.
fn measure(
    path: &Path,
    (count, shape): (usize, [usize; 2]),
    device: &Device,
) -> Outcome<(Vec<Duration>, Vec<Duration>)> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let tensors = |builder: &VarBuilder<'_>| -> candle_core::Result<Vec<Tensor>> {
        let all = (0..count).map(|number| builder.get((shape[0], shape[1]), &format!("t{number}")));
        let all = all.collect();
        device.synchronize()?;
        all
    };
    for round in 0..3 {
        let start = Instant::now();
        let loaded = LoadedWeights::load(&Weights::open([path])?, device, |_| true)?;
        let mine = tensors(&VarBuilder::from_backend(
            Box::new(loaded),
            DType::BF16,
            device.clone(),
        ))?;
        ours.push(start.elapsed());
        let bits = |tensor: &Tensor| -> candle_core::Result<Vec<u16>> {
            let elements = tensor.flatten_all()?.to_vec1::<half::bf16>()?;
            Ok(elements.into_iter().map(half::bf16::to_bits).collect())
        };
        let mine = match round {
            0 => mine.iter().map(bits).collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        let start = Instant::now();
        // SAFETY: nothing changes the file.
        let builder = unsafe { VarBuilder::from_mmaped_safetensors(&[path], DType::BF16, device)? };
        let own = tensors(&builder)?;
        theirs.push(start.elapsed());
        for (mine, own) in mine.iter().zip(&own) {
            if *mine != bits(own)? {
                return Err("the tensors differ".into());
            }
        }
    }
    Ok((ours, theirs))
}
