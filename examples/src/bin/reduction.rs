//! A sum in shared memory, and with a naive kernel that adds every element to one address.

use cuda_um::{DeviceBuffer, Event};
use std::fmt::Write;
use std::process::ExitCode;
use um_examples::machine::{example, median, us};
use um_kernels::{Reduce, reduce_sum_cpu};

const ROUNDS: usize = 7;

fn main() -> ExitCode {
    example("reduction", |machine| {
        let device = machine.device();
        let stream = device.create_stream()?;
        let reduce = Reduce::load(device)?;
        let mut table = format!(
            "{:>12}{:>18}{:>18}{:>10}\n",
            "elements", "shared memory", "naive", "ratio"
        );
        for len in [1 << 12, 1 << 16, 1 << 20, 1 << 22] {
            // Multiples of a quarter: every order of additions gives the same sum, as long as it stays below 2^22.
            let values: Vec<f32> = (0..len).map(|i| (i % 7) as f32 / 4.0 - 0.75).collect();
            let expected = values.iter().map(|&value| f64::from(value)).sum::<f64>() as f32;
            let input = DeviceBuffer::from_slice(device, &values)?;
            let mut sum = DeviceBuffer::<f32>::zeroed(device, 1)?;
            let (mut shared, mut naive) = (Vec::new(), Vec::new());
            for round in 0..2 * ROUNDS {
                let in_shared_memory = round % 2 == 0;
                sum.fill_on(0.0, &stream)?;
                let before = Event::timed(&stream)?;
                if in_shared_memory {
                    reduce.sum(&stream, &input, &mut sum)?;
                } else {
                    reduce.sum_naive(&stream, &input, &mut sum)?;
                }
                let time = Event::timed(&stream)?.elapsed_since(&before)?;
                if in_shared_memory {
                    &mut shared
                } else {
                    &mut naive
                }
                .push(time);
                let mut found = [0.0];
                sum.copy_to_host(&mut found)?;
                if found[0] != expected || (in_shared_memory && found[0] != reduce_sum_cpu(&values))
                {
                    return Err(format!(
                        "the sum of {len} elements is {}, not {expected}",
                        found[0]
                    )
                    .into());
                }
            }
            let (shared, naive) = (median(shared), median(naive));
            let ratio = naive.as_secs_f64() / shared.as_secs_f64();
            writeln!(
                table,
                "{len:>12}{:>18}{:>18}{ratio:>10.1}",
                us(shared),
                us(naive)
            )?;
        }
        table +=
            "Times are between two events on the stream; every sum was compared with the CPU's.";
        if machine.simulator().is_some() {
            table += "\nThe simulator's cost model has no shared memory: only a GPU shows the difference.";
        }
        Ok(table)
    })
}
