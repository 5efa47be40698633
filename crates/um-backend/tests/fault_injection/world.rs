//! Backends of one simulated machine, and a buffer of each kind that must survive every failure.

use cuda_um::Runtime;
use cuda_um_testkit::faults::check;
use cuda_um_testkit::faults::failure::Failure;
use cuda_um_testkit::without_pools;
use um_backend::sim::{Gpu, Sim};
use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaError, RuntimeChoice};

/// The GPU, and the number of devices.
pub type Machine = (Gpu, usize);
pub const MACHINES: [Machine; 4] = [
    (Gpu::H200, 1),
    (Gpu::H200, 2),
    (Gpu::NoConcurrentAccess, 1),
    (Gpu::Maxwell, 1),
];

/// Elements of a buffer.
pub const LEN: usize = 3000;

pub struct World {
    pub sim: Sim,
    pub backend: CudaBackend,
    /// The last device, which can be the same one.
    pub far: CudaBackend,
    /// One buffer of each kind.
    witnesses: Vec<Box<dyn Buffer<f32>>>,
}

fn numbers() -> Vec<f32> {
    (0..LEN).map(|i| i as f32).collect()
}

impl check::World for World {
    type Machine = Machine;
    type Error = CudaError;

    fn new((gpu, devices): Machine) -> Self {
        let sim = Sim::builder().gpu(gpu).devices(devices).build().unwrap();
        let config = CudaBackendConfig::default().simulator(sim.clone());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        // Each buffer makes its calls.
        for device in backend.device().runtime().devices().unwrap() {
            without_pools(&device);
        }
        let given = RuntimeChoice::Given(backend.device().runtime().clone());
        let config = CudaBackendConfig::default().runtime(given);
        let far = config.device(devices - 1);
        let witnesses = BufferKind::ALL.map(|kind| {
            let mut witness = backend.create::<f32>(kind, LEN).unwrap();
            witness.copy_from_host(&numbers()).unwrap();
            witness
        });
        backend.synchronize().unwrap();
        let world = Self {
            far: CudaBackend::initialize_blocking(far).unwrap(),
            witnesses: witnesses.into(),
            backend,
            sim,
        };
        world.sim.clear_trace();
        world
    }

    fn sim(&self) -> &Sim {
        &self.sim
    }

    fn cause(error: &CudaError) -> Option<&CudaError> {
        Some(error)
    }

    fn is_told(error: &CudaError, failure: &Failure) -> bool {
        error.to_string().lines().count() == 1 && failure.is_told_by(error)
    }

    fn runtime(&self) -> Runtime {
        self.backend.device().runtime().clone()
    }

    fn still_works(&mut self) -> Result<(), CudaError> {
        let backend = &self.backend;
        for witness in &mut self.witnesses {
            assert_eq!(witness.to_vec()?, numbers(), "a witness has changed");
            let mut copy = witness.clone_empty(LEN)?;
            copy.copy_from_buffer(&**witness)?;
            witness.fill(2.0)?;
            assert_eq!(witness.to_vec()?, [2.0; LEN]);
            witness.copy_from_buffer(&*copy)?;
        }
        for kind in BufferKind::ALL {
            assert_eq!(backend.create::<f32>(kind, 10)?.to_vec()?, [0.0; 10]);
        }
        backend.synchronize()?;
        self.far.synchronize()
    }
}
