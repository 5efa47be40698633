//! A backend over a simulator of its own, for each wrong use.

use std::error::Error;

use um_backend::sim::{Gpu, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, CudaBuffer, DType, UnifiedBuffer};

use crate::wrong_uses::page::Row;

/// What a wrong use returns.
pub type Outcome = Result<(), Box<dyn Error>>;

pub struct World {
    pub sim: Sim,
    pub backend: CudaBackend,
}

impl World {
    /// Two H200s with 64 MiB each.
    pub fn new() -> Self {
        Self::of(Gpu::H200)
    }

    pub fn of(gpu: Gpu) -> Self {
        let builder = Sim::builder().gpu(gpu).devices(2);
        let sim = builder.total_memory_bytes(64 << 20).build().unwrap();
        let config = CudaBackendConfig::default().simulator(sim.clone());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        Self { sim, backend }
    }

    /// Ten elements that are named `weights`.
    pub fn unified(&self) -> UnifiedBuffer<f32> {
        let mut buffer = self.backend.allocate_unified(10).unwrap();
        um_backend::Buffer::set_name(&mut buffer, "weights");
        buffer
    }

    pub fn on_device(&self) -> CudaBuffer<f32> {
        self.backend.create_buffer(10, DType::F32).unwrap()
    }

    pub fn any(&self, kind: BufferKind) -> Box<dyn um_backend::Buffer<f32>> {
        self.backend.create(kind, 10).unwrap()
    }
}

/// Makes a wrong call, and returns its row.
pub fn row(wrong: &str, call: impl FnOnce(&World) -> Outcome) -> Row {
    row_on(&World::new(), wrong, call)
}

/// The same, on this world.
pub fn row_on(world: &World, wrong: &str, call: impl FnOnce(&World) -> Outcome) -> Row {
    match call(world) {
        Ok(()) => panic!("no error: {wrong}"),
        Err(error) => Row::new(wrong, error.to_string()),
    }
}

/// `"the wrong use" => |world| result;`
macro_rules! rows {
    ($($wrong:literal => |$world:ident| $call:expr;)*) => {
        vec![$($crate::wrong_uses::world::row($wrong, |$world| {
            let _ = $call?;
            Ok(())
        })),*]
    };
}
pub(crate) use rows;
