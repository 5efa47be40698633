//! Times over all devices: uploads, and exact searches.

use super::peers::sizes;
use super::{Machine, Times};
use crate::clock::Clock;
use anyhow::{Result, ensure};
use cuda_um::{Device, DeviceBuffer};
use half::f16;
use std::cell::RefCell;
use std::thread;
use std::time::Duration;
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaBackendConfig, RuntimeChoice, Sharded, Split,
};
use um_search::{Filter, Metric, Shard, ShardedSearch, TopKShape};

/// Memory of the host to rows over the devices, and to one device.
pub(super) fn uploads(machine: &Machine) -> Result<()> {
    if machine.two().is_none() {
        return Ok(());
    }
    let config = match &machine.clock {
        Clock::Simulated(sim) => CudaBackendConfig::default().simulator(sim.clone()),
        Clock::Wall(_) => CudaBackendConfig::default().runtime(RuntimeChoice::Cuda),
    };
    let first = CudaBackend::initialize_blocking(config)?;
    let others = (1..machine.devices.len()).map(|ordinal| first.sibling(ordinal));
    let mut backends = vec![first.clone()];
    for other in others {
        backends.push(other?);
    }
    let table = Times::new("of one device");
    for bytes in sizes(machine) {
        // 256 bytes a row.
        let values: Vec<f32> = (0..bytes / 4).map(|at| at as f32).collect();
        let make = |backends: &[CudaBackend]| {
            Sharded::<f32>::zeroed(backends, BufferKind::Cuda, bytes / 256, 64, Split::Even)
        };
        let one = RefCell::new(make(&backends[..1])?);
        let all = RefCell::new(make(&backends)?);
        let synchronize = || -> Result<()> {
            for backend in &backends {
                backend.synchronize()?;
            }
            Ok(())
        };
        let host = |target: &RefCell<Sharded<f32>>| -> Result<()> {
            target.borrow_mut().copy_from_host(&values)?;
            synchronize()
        };
        let times = machine.medians(|_| Ok(()), [&mut || host(&one), &mut || host(&all)])?;
        let names = ["host memory to one device", "host memory to all devices"];
        table.rows(bytes, names, times);
        ensure!(all.borrow().to_vec()? == values, "WRONG RESULT");
        all.borrow_mut().fill(0.0)?;
        let mut pinned = first.create_pinned::<f32>(values.len())?;
        pinned.copy_from_host(&values)?;
        let pinned = |target: &RefCell<Sharded<f32>>| -> Result<()> {
            target.borrow_mut().copy_from_buffer(&pinned)?;
            synchronize()
        };
        let times = machine.medians(|_| Ok(()), [&mut || pinned(&one), &mut || pinned(&all)])?;
        let names = [
            "pinned memory to one device",
            "pinned memory to all devices",
        ];
        table.rows(bytes, names, times);
        ensure!(all.borrow().to_vec()? == values, "WRONG RESULT");
    }
    Ok(())
}

/// The elements of a row, and the entries of a list.
const DIM: usize = 768;
const K: usize = 10;

/// Exact search over one device and over all of them.
pub(super) fn search(machine: &Machine) -> Result<()> {
    let (sizes, queries): (&[usize], _) = match machine.quick {
        true => (&[2048], 8),
        false => (&[1 << 20, 1 << 23], 1000),
    };
    println!("{queries} queries, rows of {DIM} elements f16, k = {K}\n");
    println!("| devices | rows in all | ms | scaling |\n|---|---|---|---|");
    let query: Vec<f32> = (0..queries * DIM).map(|at| value(!at as u64)).collect();
    for rows in sizes {
        scaling(
            machine,
            rows / machine.devices.len() * machine.devices.len(),
            &query,
        )?;
    }
    Ok(())
}

/// One device with so many rows, all with as many together, and each with as many.
fn scaling(machine: &Machine, rows: usize, query: &[f32]) -> Result<()> {
    let count = machine.devices.len();
    let row = |count: usize, rows: usize, time: Duration, scaling: &str| {
        let ms = time.as_secs_f64() * 1e3;
        println!("| {count} | {rows} | {ms:.3} | {scaling} |");
    };
    let whole = upload(&machine.devices[..1], rows)?;
    let (alone, expected) = time(machine, &machine.devices[..1], &whole, query)?;
    drop(whole);
    row(1, rows, alone, "");
    if machine.two().is_none() {
        return Ok(());
    }
    let parts = upload(&machine.devices, rows / count)?;
    let (strong, found) = time(machine, &machine.devices, &parts, query)?;
    ensure!(
        found == expected,
        "WRONG RESULT: the lists of all devices are not those of one"
    );
    drop(parts);
    let ratio = |time: Duration| alone.as_secs_f64() / time.as_secs_f64();
    let words = format!(
        "strong {:.3}; the lists are equal to the bit",
        ratio(strong)
    );
    row(count, rows, strong, &words);
    let many = upload(&machine.devices, rows)?;
    let (weak, _) = time(machine, &machine.devices, &many, query)?;
    row(
        count,
        rows * count,
        weak,
        &format!("weak {:.3}", ratio(weak)),
    );
    Ok(())
}

/// An element by its number.
fn value(number: u64) -> f32 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// Times on each device; all together are numbered one after the other.
fn upload(devices: &[Device], rows: usize) -> Result<Vec<DeviceBuffer<f16>>> {
    let buffers = devices.iter().enumerate().map(|(device_number, device)| {
        let mut values = vec![f16::ZERO; rows * DIM];
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let chunk = values.len().div_ceil(threads);
        let first = device_number * rows * DIM;
        thread::scope(|scope| {
            for (number, chunk_values) in values.chunks_mut(chunk).enumerate() {
                scope.spawn(move || {
                    for (at, element) in chunk_values.iter_mut().enumerate() {
                        *element = f16::from_f32(value((first + number * chunk + at) as u64));
                    }
                });
            }
        });
        Ok(DeviceBuffer::from_slice(device, &values)?)
    });
    buffers.collect()
}

/// The bits of the scores, and the indices.
type Lists = (Vec<u32>, Vec<u32>);

/// The median time of a search, and its lists.
fn time(
    machine: &Machine,
    devices: &[Device],
    rows: &[DeviceBuffer<f16>],
    query: &[f32],
) -> Result<(Duration, Lists)> {
    let search = ShardedSearch::load(devices)?;
    let each = rows[0].len() / DIM;
    let shards = rows.iter().enumerate();
    let shards: Vec<_> = shards
        .map(|(number, rows)| Shard::new(number * each, rows.as_view()))
        .collect();
    let shape = TopKShape {
        queries: query.len() / DIM,
        targets: each * rows.len(),
        dim: DIM,
        k: K,
    };
    let results = RefCell::new((vec![0.0; shape.queries * K], vec![0; shape.queries * K]));
    let mut run = || -> Result<()> {
        let (scores, indices) = &mut *results.borrow_mut();
        let (metric, filter) = (Metric::Cosine, Filter::Auto);
        search.search(shape, metric, filter, query, &shards, scores, indices)?;
        Ok(())
    };
    let [time] = machine.medians(|_| Ok(()), [&mut run])?;
    let (scores, indices) = results.into_inner();
    Ok((
        time,
        (
            scores.iter().map(|score: &f32| score.to_bits()).collect(),
            indices,
        ),
    ))
}
