//! The table "machine × kind of memory" of `docs/choosing.md`: each cell is what the calls do on the simulated machine.

use std::io::Write;

use um_backend::cuda_um::{Placement, RegisteredBuffer, UnifiedOptions, resource::Placed};
use um_backend::sim::{Gpu, Sim};
use um_backend::{BufferKind, CudaBackend, Location};
use um_backend::{Result, UnifiedBuffer};

use crate::support::{Machine, kernel::Double};

use Gpu::{Gb10, Gh200, H200, Hmm, Maxwell, NoConcurrentAccess};

const DOCS: &str = include_str!("../../../../../docs/choosing.md");

/// The machines, in the order of the columns.
const MACHINES: [Gpu; 6] = [Gh200, Hmm, Gb10, H200, NoConcurrentAccess, Maxwell];

/// Elements of the buffers: more than one block of 2 MiB, and copies that are staged on other machines.
const LEN: usize = 4 << 20;

struct World {
    double: Double,
    backend: CudaBackend,
    machine: Machine,
}

impl World {
    fn new(gpu: Gpu) -> Self {
        let machine = Machine::simulated(gpu, |builder| builder);
        let backend = machine.backend();
        Self {
            double: Double::load(backend.device()),
            backend,
            machine,
        }
    }

    fn taken_vector(&self) -> Result<UnifiedBuffer<f32>> {
        UnifiedBuffer::from_vec(self.backend.device(), vec![1.0; LEN])
    }

    fn calls(&self, work: impl FnOnce() -> Result<()>, name: &str) -> Result<usize> {
        self.sim().clear_trace();
        work()?;
        let calls = self.sim().trace();
        Ok(calls
            .iter()
            .filter(|call| call.name.starts_with(name))
            .count())
    }

    fn sim(&self) -> &Sim {
        self.machine.sim()
    }
}

fn memory(placed: &Placed) -> &'static str {
    match placed.placement {
        Placement::Managed => "managed",
        Placement::Mapped => "mapped",
        Placement::System if placed.reason.contains("without a copy") => "in place",
        Placement::System => "system",
        _ => "another",
    }
}

/// A buffer of data that exist.
fn taken(placed: &Placed) -> String {
    match memory(placed) {
        "in place" => "in place".to_owned(),
        copied => format!("a {copied} copy"),
    }
}

type Row = (&'static str, fn(&World) -> Result<String>);

const ROWS: &[Row] = &[
    ("`Capabilities::unified_memory`", |world| {
        let capabilities = world.backend.device().capabilities();
        Ok(format!("`{:?}`", capabilities.unified_memory()))
    }),
    ("`UnifiedBuffer::zeroed`", |world| {
        let buffer = UnifiedBuffer::<f32>::zeroed(world.backend.device(), LEN)?;
        Ok(memory(&buffer.placement()).to_owned())
    }),
    ("`zeroed_with`, `Placement::System`", |world| {
        let options = UnifiedOptions::default().placement(Placement::System);
        let mut made = Ok(());
        let make = || {
            made =
                UnifiedBuffer::<f32>::zeroed_with(world.backend.device(), LEN, options).map(drop);
            Ok(())
        };
        let calls = world.calls(make, "")?;
        Ok(match made {
            Ok(()) => format!("{calls} calls of CUDA"),
            Err(_) => "refused".to_owned(),
        })
    }),
    ("`from_vec`", |world| {
        Ok(taken(&world.taken_vector()?.placement()))
    }),
    ("`map_file`", |world| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 1 << 16]).unwrap();
        let options = UnifiedOptions::default();
        // SAFETY: nothing else has the file.
        #[allow(unsafe_code, reason = "maps a file of this test")]
        let mapped =
            unsafe { UnifiedBuffer::<f32>::map_file(world.backend.device(), &file, .., options)? };
        Ok(taken(&mapped.placement()))
    }),
    ("`RegisteredBuffer::from_vec`", |world| {
        let register =
            || RegisteredBuffer::from_vec(world.backend.device(), vec![1u8; LEN]).map(drop);
        Ok(match world.calls(register, "cudaHostRegister")? {
            0 => "in place".to_owned(),
            _ => "registered".to_owned(),
        })
    }),
    ("`HostBuffer` of a backend as an argument", |world| {
        let mut host = world.backend.create::<f32>(BufferKind::Host, LEN)?;
        match world.double.launch(world.backend.device(), &mut *host) {
            Ok(()) => Ok("in place".to_owned()),
            Err(_) => Ok("refused".to_owned()),
        }
    }),
    ("the first kernel on the buffer of `from_vec`", |world| {
        let mut buffer = world.taken_vector()?;
        if buffer.placement().placement == Placement::System {
            // The allocator may give memory again that a kernel of another test used.
            buffer.prefetch(Location::Host)?;
        }
        world.backend.synchronize()?;
        world.sim().reset_counters();
        world.double.launch(world.backend.device(), &mut buffer)?;
        world.backend.synchronize()?;
        Ok(match world.sim().counters().gpu_faults {
            0 => "no page fault".to_owned(),
            _ => "page faults".to_owned(),
        })
    }),
    ("`prefetch` of it", |world| {
        let outcome = world.taken_vector()?.prefetch(Location::Host)?;
        let text = ["not applied", "applied"][usize::from(outcome.is_applied())];
        Ok(text.to_owned())
    }),
    ("`host` while another buffer's kernel runs", |world| {
        let (buffer, mut other) = (world.taken_vector()?, world.taken_vector()?);
        world.backend.synchronize()?;
        let held = world.sim().pause();
        world.double.launch(world.backend.device(), &mut other)?;
        let found = match buffer.try_host() {
            Ok(_) => "at once".to_owned(),
            Err(_) => "waits".to_owned(),
        };
        drop(held);
        Ok(found)
    }),
    ("`copy_from_host` of 16 MiB to device memory", |world| {
        let mut target = world.backend.create::<f32>(BufferKind::Cuda, LEN)?;
        let source = vec![1.0; LEN];
        // The first copies go the driver's way, while the staging memory is prepared.
        for _ in 0..50 {
            let copies = world.calls(|| target.copy_from_host(&source), "cudaMemcpy")?;
            if copies > 1 {
                return Ok("staged".to_owned());
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Ok("one copy".to_owned())
    }),
];

#[test]
fn the_table_says_what_each_call_does() {
    let worlds = MACHINES.map(World::new);
    for (call, does) in ROWS {
        let cells: Vec<String> = worlds.iter().map(|world| does(world).unwrap()).collect();
        let row = format!("| {call} | {} |", cells.join(" | "));
        assert!(
            DOCS.lines().any(|line| line == row),
            "missing in docs/choosing.md:\n{row}"
        );
    }
}
