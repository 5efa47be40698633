//! Collective operations on the simulator: results, refusals, ranks that are lost.

mod lost;
mod refused;
mod results;

use cuda_um::collective::{Communicator, Operation, group};
use cuda_um::{Device, Stream};
use cuda_um_sim::{Gpu, Sim};
use cuda_um_testkit::{Checked, open};

/// All devices of a machine, each with a rank and a stream.
struct World {
    ranks: Vec<Communicator>,
    streams: Vec<Stream>,
    devices: Vec<Device>,
    sim: Checked,
}

impl World {
    fn new(gpu: Gpu, devices: usize) -> Self {
        let sim = Sim::builder().gpu(gpu).devices(devices).build().unwrap();
        let sim = Checked::new(sim);
        let runtime = open(&sim);
        let devices = (0..devices as u32).map(|ordinal| runtime.device(ordinal).unwrap());
        let devices: Vec<_> = devices.collect();
        Self {
            ranks: Communicator::all(&devices).unwrap(),
            streams: devices
                .iter()
                .map(|it| it.create_stream().unwrap())
                .collect(),
            devices,
            sim,
        }
    }

    /// Runs an operation of each rank, with its own parts, as one group.
    fn all<'a, S: 'a, T: 'a>(
        &'a self,
        sources: &'a [S],
        targets: &'a mut [T],
        operation: impl Fn(&'a Communicator, &'a S, &'a mut T) -> Operation<'a>,
    ) -> cuda_um::Result<()> {
        let each = self.ranks.iter().zip(&self.streams);
        let each = each.zip(sources).zip(targets);
        group(
            each.map(|(((rank, stream), source), target)| {
                operation(rank, source, target).on(stream)
            }),
        )
    }
}
