//! Measurements of several devices, and checks of the results: the sections of the binary `um_scale`.

mod collectives;

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
pub const SECTIONS: &[Section] = &[Section {
    name: "collectives",
    what: "all_gather over all devices, by this library and by NCCL's functions alone",
    run: collectives::run,
}];

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
        for device in &devices {
            // What is freed goes back: no more than 1 GiB of managed memory at a time.
            for kind in [MemoryKind::Managed, MemoryKind::Device] {
                device.set_pool_options(kind, PoolOptions::default().keep_bytes(0))?;
            }
        }
        let streams = devices.iter().map(Device::create_stream);
        Ok(Self {
            table,
            streams: streams.collect::<Result<_, _>>()?,
            devices,
            clock,
            quick,
        })
    }

    /// Waits for the streams of all devices.
    pub fn synchronize(&self) -> Result<()> {
        self.streams.iter().try_for_each(Stream::synchronize)?;
        Ok(())
    }

    /// The median times of contenders that run in turn, each after `prepare`.
    pub fn medians<const N: usize>(
        &self,
        mut prepare: impl FnMut(usize) -> Result<()>,
        contenders: [&mut dyn FnMut() -> Result<()>; N],
    ) -> Result<[Duration; N]> {
        const WARM_UP: usize = 2;
        let rounds = WARM_UP + if self.quick { 5 } else { 21 };
        let mut times = [(); N].map(|()| Vec::new());
        for round in 0..rounds {
            for (contender, times) in times.iter_mut().enumerate() {
                prepare(contender)?;
                self.synchronize()?;
                let time = self.clock.time(&mut *contenders[contender])?;
                if round >= WARM_UP {
                    times.push(time);
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
