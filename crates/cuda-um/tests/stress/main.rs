//! Many threads, streams and buffers of one runtime: reads return the written data, and nothing is leaked.
//!
//! The default is 4,000 operations for each thread. `CUDA_UM_STRESS_SECONDS=240` sets a time, and `CUDA_UM_STRESS_SEED` repeats
//! the random choices of a run (but not the order of the threads). Memory stays below 1 GiB, see `budget.rs`.

mod budget;
mod item;
mod kernels;
mod progress;
mod worker;

use budget::{Budget, CAP_BYTES, POOL_BYTES, RING_BYTES};
use cuda_um::{Device, MemoryKind, Pool, PoolOptions, buffer::TransferOptions};
use cuda_um_sim::Leak;
use cuda_um_testkit::watchdog::say;
use fastrand::Rng;
use kernels::Kernels;
use progress::{Over, Progress};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use worker::{Shared, Until, Worker};

const THREADS: usize = 16;
const STREAMS: usize = 8;
/// For each thread, if no time is set.
const OPERATIONS: usize = 4000;

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|error| panic!("{name}={text}: {error}")),
    )
}

impl Shared {
    fn new(device: &Device) -> Self {
        let options = PoolOptions::default()
            .slab_bytes(8 << 20)
            .limit_bytes(POOL_BYTES);
        let staging = TransferOptions::default().ring_bytes(RING_BYTES);
        device.set_transfer_options(staging);
        Self {
            device: device.clone(),
            streams: (0..STREAMS)
                .map(|_| device.create_stream().unwrap())
                .collect(),
            unified: Pool::new(device, MemoryKind::Managed, options).unwrap(),
            pinned: Pool::new(device, MemoryKind::Pinned, options).unwrap(),
            on_device: Pool::new(device, MemoryKind::Device, options).unwrap(),
            kernels: Kernels::load(device),
        }
    }

    /// The memory that the pools have allocated from CUDA.
    fn reserved_bytes(&self) -> usize {
        let stats = [
            self.unified.stats(),
            self.pinned.stats(),
            self.on_device.stats(),
        ];
        stats.iter().map(|stats| stats.reserved_bytes).sum()
    }

    /// Frees everything; returns the memory that the pools still hold.
    fn finish(self, progress: &Progress) -> usize {
        progress.begins(0, "synchronize");
        self.device.synchronize().unwrap();
        // This comes first, because a buffer that waits to be freed keeps its part of a pool. This happens if it was dropped
        // while a host guard kept the device idle.
        progress.begins(0, "reclaim");
        self.device.runtime().reclaim().unwrap();
        progress.begins(0, "trim");
        self.unified.trim();
        self.pinned.trim();
        self.on_device.trim();
        // The slabs of a pool are also buffers.
        progress.begins(0, "reclaim the slabs");
        self.device.runtime().reclaim().unwrap();
        let stats = [
            self.unified.stats(),
            self.pinned.stats(),
            self.on_device.stats(),
        ];
        let held = |stats: &cuda_um::resource::PoolStats| stats.live_bytes + stats.reserved_bytes;
        let left = stats.iter().map(held).sum();
        if left > 0 {
            say(&format!(
                "stress: left in unified, pinned and device memory: {stats:#?}"
            ));
        }
        progress.begins(0, "drop pools, kernels and streams");
        drop(self);
        left
    }
}

fn bytes_of(leak: &Leak) -> usize {
    match leak {
        Leak::Memory { bytes, .. } => *bytes,
        _ => 0,
    }
}

#[test]
fn what_is_written_is_read_and_nothing_is_left() {
    let seconds = setting("CUDA_UM_STRESS_SECONDS");
    let until = match seconds {
        Some(seconds) => Until::Time(Instant::now() + Duration::from_secs(seconds)),
        None => Until::Operations(OPERATIONS),
    };
    let seed = setting("CUDA_UM_STRESS_SEED").unwrap_or(1);
    let (sim, runtime) = cuda_um_testkit::machine();
    let device = runtime.device(0).unwrap();
    let concurrent = device.capabilities().concurrent_managed_access;
    let (budget, progress) = (Budget::new(), Progress::new(THREADS));
    let shared = Shared::new(&device);
    let taken_bytes = || {
        let mut taken = shared.reserved_bytes() + budget.live_bytes() + RING_BYTES;
        if let Some(sim) = &sim {
            // The memory according to CUDA, independent of the library.
            taken = sim.leaks().iter().map(bytes_of).sum();
        }
        assert!(taken <= CAP_BYTES, "{taken} bytes taken from CUDA");
        format!("{} MiB taken from CUDA", taken >> 20)
    };
    std::thread::scope(|scope| {
        let over = Over(&progress);
        let watch = scope.spawn(|| progress.watch(taken_bytes));
        std::thread::scope(|scope| {
            let (others, inboxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
            for (number, inbox) in inboxes.into_iter().enumerate() {
                let worker = Worker {
                    number,
                    shared: &shared,
                    budget: &budget,
                    progress: &progress,
                    random: Rng::with_seed(seed << 8 | number as u64),
                    large_in: if seconds.is_some() { 32 } else { 512 },
                    inbox,
                    others: others.clone(),
                    items: Vec::new(),
                };
                scope.spawn(move || worker.run(until));
            }
        });
        drop(over);
        watch.join().unwrap();
    });
    let end = Progress::new(1);
    let left = std::thread::scope(|scope| {
        scope.spawn(|| end.watch(String::new));
        let _over = Over(&end);
        shared.finish(&end)
    });
    let left = left + budget.live_bytes();
    drop((device, runtime));
    let operations = progress.operations();
    let errors = progress.errors.load(Ordering::Relaxed);
    say(&format!(
        "stress: {THREADS} threads, {STREAMS} streams, {operations} operations, {errors} wrong contents, {left} bytes live"
    ));
    assert_eq!((errors, left), (0, 0));
    let refused = progress.refused.load(Ordering::Relaxed);
    // On other devices every host guard excludes all other threads from the device.
    assert!(
        !concurrent || refused < operations / 4,
        "{refused} operations were refused"
    );
}
