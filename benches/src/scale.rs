//! Measurements of several devices, and checks of the results: the sections of the binary `um_scale`.

mod collectives;
mod peers;
mod shards;

use crate::clock::Clock;
use anyhow::{Result, ensure};
use cuda_um::sys::Table;
use cuda_um::{Device, MemoryKind, PoolOptions, Runtime, Stream};
use cuda_um_sim::Sim;
use std::sync::Arc;
use std::time::Duration;

/// A section: a part of the measurements that can be run alone.
#[derive(Clone, Copy)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub what: &'static str,
    /// Measures, prints and checks. What it cannot do on the machine it prints as skipped; a wrong result is an error.
    pub run: fn(&Machine) -> Result<()>,
}

/// All sections, in their order.
pub const SECTIONS: &[Section] = &[
    Section {
        name: "migrations",
        what: "from the first device to the second, beside the copy between devices",
        run: peers::migrations,
    },
    Section {
        name: "duplicates",
        what: "read-mostly memory on two devices, beside the driver's faults",
        run: peers::duplicates,
    },
    Section {
        name: "uploads",
        what: "pinned memory to one device and back, alone and through its neighbours",
        run: peers::uploads,
    },
    Section {
        name: "shards",
        what: "memory of the host to rows over all devices, beside one device",
        run: shards::uploads,
    },
    Section {
        name: "search",
        what: "exact search over one device and over all, weak and strong scaling",
        run: shards::search,
    },
    Section {
        name: "collectives",
        what: "all_gather over all devices, by this library and by NCCL's functions alone",
        run: collectives::run,
    },
];

/// All devices of a machine, with a stream for each.
pub struct Machine {
    /// The function table of CUDA, for calls without the library.
    pub table: Arc<Table>,
    /// The devices.
    pub devices: Vec<Device>,
    /// A stream of each.
    pub streams: Vec<Stream>,
    /// The clock of all times.
    pub clock: Clock,
    /// Sizes up to 16 MiB, and fewer rounds.
    pub quick: bool,
}

impl Machine {
    /// The devices of this machine, or so many simulated ones.
    pub fn open(simulated: Option<usize>, quick: bool) -> Result<Self> {
        let (table, clock) = match simulated {
            Some(devices) => {
                um_kernels::sim::register();
                um_search::sim::register();
                let sim = Sim::builder().devices(devices).build()?;
                (sim.table(), Clock::Simulated(sim))
            }
            None => (cuda_um::sys::load()?, Clock::wall()),
        };
        let runtime = Runtime::from_table(Arc::clone(&table))?;
        let devices = 0..runtime.device_count()? as u32;
        let devices: Vec<_> = devices
            .map(|it| runtime.device(it))
            .collect::<Result<_, _>>()?;
        let streams = devices.iter().map(Device::create_stream);
        for device in &devices {
            // A block that a migration leaves serves the way back.
            let keep = PoolOptions::default().keep_bytes(320 << 20);
            device.set_pool_options(MemoryKind::Managed, keep)?;
        }
        Ok(Self {
            table,
            streams: streams.collect::<Result<_, _>>()?,
            devices,
            clock,
            quick,
        })
    }

    /// What the pools keep goes back to CUDA: no section has more than 1 GiB of managed memory.
    pub fn trim(&self) -> Result<()> {
        for device in &self.devices {
            for kind in [MemoryKind::Managed, MemoryKind::Device] {
                if let Some(pool) = device.pool(kind)? {
                    pool.trim();
                }
            }
        }
        Ok(())
    }

    /// The first two devices; says that the section is skipped if there is one.
    fn two(&self) -> Option<[Device; 2]> {
        match &self.devices[..] {
            [first, second, ..] => Some([first.clone(), second.clone()]),
            _ => {
                println!("skipped: it needs two devices, and this machine has one");
                None
            }
        }
    }

    /// Waits for the streams of all devices.
    pub fn synchronize(&self) -> Result<()> {
        self.streams.iter().try_for_each(Stream::synchronize)?;
        Ok(())
    }

    /// The median times of contenders that run in turn, each after `prepare`; each round begins with another one.
    pub fn medians<const N: usize>(
        &self,
        mut prepare: impl FnMut(usize) -> Result<()>,
        contenders: [&mut dyn FnMut() -> Result<()>; N],
    ) -> Result<[Duration; N]> {
        const WARM_UP: usize = 2;
        let rounds = WARM_UP + if self.quick { 5 } else { 21 };
        let mut times = [(); N].map(|()| Vec::new());
        for round in 0..rounds {
            for place in 0..N {
                let contender = (round + place) % N;
                prepare(contender)?;
                self.synchronize()?;
                let time = self.clock.time(&mut *contenders[contender])?;
                if round >= WARM_UP {
                    times[contender].push(time);
                }
            }
        }
        ensure!(times.iter().all(|times| !times.is_empty()), "no round");
        Ok(times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        }))
    }
}

/// A table of times, whose last column compares with the first row of each size.
struct Times;

impl Times {
    fn new(beside: &str) -> Self {
        println!("| what | MiB | us | GB/s | {beside} |\n|---|---|---|---|---|");
        Self
    }

    fn rows<const N: usize>(&self, bytes: usize, names: [&str; N], times: [Duration; N]) {
        let us = times.map(|time| time.as_secs_f64() * 1e6);
        for (name, time) in names.into_iter().zip(us) {
            println!(
                "| {name} | {} | {time:.1} | {:.1} | {:.3} |",
                bytes >> 20,
                bytes as f64 / time / 1e3,
                us[0] / time
            );
        }
    }
}
