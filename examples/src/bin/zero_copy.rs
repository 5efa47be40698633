//! The same scale kernel, twice: on host memory mapped into the device's address space, and on device memory with a copy in and
//! a copy out.

use cuda_um::{DeviceBuffer, PinnedBuffer, Stream};
use std::fmt::Write;
use std::process::ExitCode;
use um_examples::Failure;
use um_examples::machine::{Machine, example, median, us};
use um_kernels::{Scale, scale_cpu};

const ROUNDS: usize = 7;
const FACTOR: f32 = 2.5;

fn main() -> ExitCode {
    example("zero_copy", |machine| {
        let stream = machine.device().create_stream()?;
        let scale = Scale::load(machine.device())?;
        let mut table = format!("{:>12}{:>18}{:>18}\n", "bytes", "mapped", "copy in and out");
        for kib in [4, 64, 1024, 16 * 1024] {
            let case = Case::new(machine, kib * 256)?;
            let (mapped, copied) = (case.mapped(&scale, &stream)?, case.copied(&scale, &stream)?);
            writeln!(table, "{:>8} KiB{:>18}{:>18}", kib, us(mapped), us(copied))?;
        }
        Ok(table + "Every result was compared with that of the CPU reference.")
    })
}

struct Case<'a> {
    machine: &'a Machine,
    input: Vec<f32>,
    expected: Vec<f32>,
}

impl<'a> Case<'a> {
    fn new(machine: &'a Machine, len: usize) -> Result<Self, Failure> {
        let input: Vec<f32> = (0..len).map(|i| i as f32 - len as f32 / 3.0).collect();
        let mut expected = vec![0.0; len];
        scale_cpu(&input, &mut expected, FACTOR);
        Ok(Self {
            machine,
            input,
            expected,
        })
    }

    /// The kernel reads and writes host memory in place.
    fn mapped(&self, scale: &Scale, stream: &Stream) -> Result<std::time::Duration, Failure> {
        let device = self.machine.device();
        let input = PinnedBuffer::from_slice(device, &self.input)?;
        let mut output = PinnedBuffer::<f32>::zeroed(device, self.input.len())?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            output.host_mut()?.fill(0.0);
            times.push(self.machine.time(|| {
                scale.launch(stream, &input, &mut output, FACTOR)?;
                Ok(stream.synchronize()?)
            })?);
            self.verify(&output.host()?)?;
        }
        Ok(median(times))
    }

    /// The kernel works on device memory.
    fn copied(&self, scale: &Scale, stream: &Stream) -> Result<std::time::Duration, Failure> {
        let device = self.machine.device();
        let len = self.input.len();
        let input = PinnedBuffer::from_slice(device, &self.input)?;
        let mut output = PinnedBuffer::<f32>::zeroed(device, len)?;
        let mut on_device = DeviceBuffer::<f32>::zeroed(device, len)?;
        let mut scaled = DeviceBuffer::<f32>::zeroed(device, len)?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            output.host_mut()?.fill(0.0);
            times.push(self.machine.time(|| {
                stream.copy(&input, &mut on_device)?;
                scale.launch(stream, &on_device, &mut scaled, FACTOR)?;
                stream.copy(&scaled, &mut output)?;
                Ok(stream.synchronize()?)
            })?);
            self.verify(&output.host()?)?;
        }
        Ok(median(times))
    }

    fn verify(&self, output: &[f32]) -> Result<(), Failure> {
        match output
            .iter()
            .zip(&self.expected)
            .position(|(found, expected)| found != expected)
        {
            None => Ok(()),
            Some(at) => Err(format!(
                "element {at}: {} instead of {}",
                output[at], self.expected[at]
            )
            .into()),
        }
    }
}
