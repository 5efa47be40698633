//! One copy in two orders: adjacent threads copy adjacent elements, or elements far apart.

use cuda_um::{DeviceBuffer, Event};
use std::fmt::Write;
use std::process::ExitCode;
use um_examples::machine::{example, median, us};
use um_kernels::CopyKernels;

/// Rounds and elements on a GPU; on the simulator, whose clock is exact and whose kernels take a second for a billion instructions.
const ROUNDS: [usize; 2] = [7, 1];
const LEN: [usize; 2] = [1 << 24, 1 << 20];
/// Distance between the elements of adjacent threads: 1 is coalesced.
const STRIDES: [usize; 5] = [1, 2, 8, 32, 1024];

fn main() -> ExitCode {
    example("coalescing", |machine| {
        let device = machine.device();
        let at = usize::from(machine.simulator().is_some());
        let (rounds, len) = (ROUNDS[at], LEN[at]);
        let stream = device.create_stream()?;
        let copy = CopyKernels::load(device)?;
        let values: Vec<f32> = (0..len).map(|i| (i % 8191) as f32).collect();
        let input = DeviceBuffer::from_slice(device, &values)?;
        let mut output = DeviceBuffer::<f32>::zeroed(device, len)?;
        let mut found = vec![0.0; len];
        let mut table = format!(
            "{} MiB\n{:>8}{:>18}{:>12}\n",
            len >> 18,
            "stride",
            "time",
            "GB/s"
        );
        for stride in STRIDES {
            let mut times = Vec::new();
            for _ in 0..rounds {
                output.fill_on(0.0, &stream)?;
                let before = Event::timed(&stream)?;
                if stride == 1 {
                    copy.coalesced(&stream, &input, &mut output)?;
                } else {
                    copy.strided(&stream, &input, &mut output, stride)?;
                }
                times.push(Event::timed(&stream)?.elapsed_since(&before)?);
            }
            output.copy_to_host(&mut found)?;
            if found != values {
                return Err(
                    format!("the copy with stride {stride} is not equal to its input").into(),
                );
            }
            let time = median(times);
            let gigabytes = (2 * len * size_of::<f32>()) as f64 / 1e9;
            writeln!(
                table,
                "{stride:>8}{:>18}{:>12.1}",
                us(time),
                gigabytes / time.as_secs_f64()
            )?;
        }
        table +=
            "Times are between two events on the stream; every copy was compared with its input.";
        if machine.simulator().is_some() {
            table += "\nThe simulator's cost model has no memory transactions: only a GPU shows the difference.";
        }
        Ok(table)
    })
}
