//! Storage and CUDA that fail while tensors are loaded: typed errors with their place, and everything is given back.

use std::fmt;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use cuda_um_testkit::faults::check::{self, Combination, Scenario, run_all, usual};
use cuda_um_testkit::faults::failure::{Failure, each_once};
use cuda_um_testkit::faults::rules::Rules;
use cuda_um_testkit::{no_memory_left, without_pools};
use um_backend::cuda_um::buffer::TransferOptions;
use um_backend::cuda_um::{self, Runtime};
use um_backend::sim::{Gpu, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig};
use um_weights::{Error, LoadOptions, Save, Weights};

use crate::support::{
    Folder, RING, Storage, byte, bytes_of, load, load_all, machine, safetensors, written,
};

fn model() -> Vec<u8> {
    model_of(1_200_000)
}

fn model_of(large: usize) -> Vec<u8> {
    safetensors(&[
        ("first", "U8", &[5000], 5000),
        ("second", "F32", &[2, 100], 800),
        ("third", "U8", &[large], large),
        ("fourth", "I16", &[50_000], 100_000),
    ])
}

#[test]
fn short_reads_and_interrupts_are_no_failures() {
    let mut storage = Storage::of(model());
    (storage.at_a_time, storage.interrupts) = (Some(777), true);
    let (_storage, weights) = storage.open();
    let weights = weights.unwrap();
    let (_sim, backend) = machine(Gpu::H200);
    for kind in BufferKind::ALL {
        let loaded = load_all(&weights, &backend, kind);
        let right = written(2, 1_200_000);
        assert!(
            loaded
                .iter()
                .any(|(name, bytes)| name == "third" && *bytes == right),
            "{kind}"
        );
    }
}

#[test]
fn a_failure_of_the_storage_names_tensor_and_byte() {
    let file = model();
    let data = (file.len() - 1_305_800) as u64;
    for gpu in [Gpu::H200, Gpu::Gh200, Gpu::NoConcurrentAccess] {
        let (_sim, backend) = machine(gpu);
        for (offset, name) in [
            (0, "first"),
            (5100, "second"),
            (5800, "third"),
            (900_000, "third"),
            (1_305_799, "fourth"),
        ] {
            let mut storage = Storage::of(file.clone());
            storage.fails_at = Some((data + offset, ErrorKind::Other));
            let (_storage, weights) = storage.open();
            for kind in BufferKind::ALL {
                let error = weights
                    .as_ref()
                    .unwrap()
                    .load(&backend, kind, &LoadOptions::default())
                    .unwrap_err();
                let Error::Read {
                    file,
                    tensor,
                    at,
                    source,
                } = &error
                else {
                    panic!("{error}");
                };
                assert_eq!(
                    (file.to_str(), tensor.as_str(), *at),
                    (Some("storage"), name, data + offset),
                    "{kind}"
                );
                assert_eq!(source.kind(), ErrorKind::Other);
            }
        }
    }
}

#[test]
fn a_file_that_shrinks_is_an_error_and_no_signal() {
    let folder = Folder::new();
    let path = folder.file("model.safetensors", &model());
    let weights = Weights::open([&path]).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    for gpu in [Gpu::H200, Gpu::Gh200] {
        let (_sim, backend) = machine(gpu);
        file.set_len(length - 200_001).unwrap();
        for kind in BufferKind::ALL {
            let error = weights
                .load(&backend, kind, &LoadOptions::default())
                .unwrap_err();
            assert!(
                matches!(&error, Error::Shrunk { tensor, at, opened_bytes, .. } if tensor == "third" && *at == length - 200_001 && *opened_bytes == length),
                "{kind}: {error}"
            );
        }
        file.set_len(length).unwrap();
    }
    // A truncated file is not opened.
    file.set_len(length - 1).unwrap();
    let error = Weights::open([&path]).unwrap_err();
    assert!(
        matches!(&error, Error::Tensor { tensor, reason, .. } if tensor == "fourth" && reason.contains("is it truncated?")),
        "{error}"
    );
}

#[test]
fn out_of_memory_gives_everything_back() {
    let sim = Sim::builder()
        .gpu(Gpu::H200)
        .total_memory_bytes(256 << 20)
        .build()
        .unwrap();
    let config = CudaBackendConfig::default().simulator(sim.clone());
    let backend = CudaBackend::initialize_blocking(config).unwrap();
    let names: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    let shape = [40 << 20];
    // The bytes of a header that describes 320 MiB; no data are read.
    let mut header = String::new();
    for (number, name) in names.iter().enumerate() {
        let start = number * shape[0];
        header += &format!(
            r#","{name}":{{"dtype":"U8","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
            start + shape[0]
        );
    }
    let mut file = crate::support::with_header(&format!("{{{}}}", &header[1..]));
    file.resize(file.len() + 8 * shape[0], 0);
    let (_storage, weights) = Storage::of(file).open();
    let weights = weights.unwrap();
    for kind in [BufferKind::Cuda, BufferKind::Unified] {
        let options = LoadOptions::default().bytes_in_flight(90 << 20);
        let error = weights.load(&backend, kind, &options).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
        assert!(
            matches!(&error, Error::Cuda { tensor, .. } if tensor.starts_with('t')),
            "{error}"
        );
        backend.synchronize().unwrap();
        backend.device().trim();
        no_memory_left(&sim, backend.device().runtime());
        // Two at a time have room.
        let options = options.only(|name| name < "t2");
        assert_eq!(weights.load(&backend, kind, &options).unwrap().len(), 2);
    }
    let each = weights
        .load_each(
            &backend,
            BufferKind::Cuda,
            &LoadOptions::default().bytes_in_flight(90 << 20),
        )
        .unwrap();
    assert_eq!(
        each.map(Result::unwrap).count(),
        8,
        "each is dropped before the next one"
    );
}

#[test]
fn eio_of_the_system_is_told() {
    // Its first page is not mapped: the kernel returns EIO.
    let memory: std::sync::Arc<std::fs::File> =
        std::fs::File::open("/proc/self/mem").unwrap().into();
    let error = Weights::from_storage("memory", memory, 4096).unwrap_err();
    let Error::File { source, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(source.raw_os_error(), Some(libc::EIO));
}

/// A backend, storage, and a tensor that every failure leaves as it is.
struct World {
    sim: Sim,
    backend: CudaBackend,
    kind: BufferKind,
    weights: Weights,
    witness: Vec<um_weights::Tensor>,
    folder: Folder,
}

struct Told(Error);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<cuda_um::Error> for Told {
    fn from(source: cuda_um::Error) -> Self {
        let tensor = "none".to_owned();
        Self(Error::Cuda { tensor, source })
    }
}

impl From<Error> for Told {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl check::World for World {
    type Machine = (Gpu, BufferKind);
    type Error = Told;

    fn new((gpu, kind): (Gpu, BufferKind)) -> Self {
        let sim = Sim::builder().gpu(gpu).build().unwrap();
        let config = CudaBackendConfig::default().simulator(sim.clone());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        without_pools(backend.device());
        let weights = Storage::of(model_of(20_000)).open().1.unwrap();
        let witness = load(&weights, &backend, kind);
        backend.synchronize().unwrap();
        backend.device().trim();
        let ring = TransferOptions::default().threads(2).ring_bytes(RING);
        backend.device().set_transfer_options(ring);
        sim.clear_trace();
        Self {
            witness: witness.into_values().collect(),
            folder: Folder::new(),
            sim,
            backend,
            kind,
            weights,
        }
    }

    fn sim(&self) -> &Sim {
        &self.sim
    }

    fn runtime(&self) -> Runtime {
        self.backend.device().runtime().clone()
    }

    fn cause(error: &Told) -> Option<&cuda_um::Error> {
        match &error.0 {
            Error::Cuda { source, .. } => Some(source),
            _ => None,
        }
    }

    fn is_told(error: &Told, failure: &Failure) -> bool {
        error.to_string().lines().count() == 1
            && Self::cause(error).is_some_and(|error| failure.is_told_by(error))
    }

    fn still_works(&mut self) -> Result<(), Told> {
        for tensor in &self.witness {
            let number = ["first", "second", "third", "fourth"];
            let number = number
                .iter()
                .position(|name| *name == tensor.info().name())
                .unwrap();
            let found = tensor.buffer().read()?.bytes().to_vec()?;
            assert!(
                found
                    .iter()
                    .enumerate()
                    .all(|(at, found)| *found == byte(number, at))
            );
        }
        assert_eq!(self.folder.names(), Vec::<String>::new());
        self.load()
    }
}

impl World {
    fn load(&self) -> Result<(), Told> {
        let tensors = self
            .weights
            .load(&self.backend, self.kind, &LoadOptions::default())?;
        assert_eq!(tensors.len(), 4);
        let last = tensors["fourth"].buffer().read()?.bytes().to_vec()?;
        assert!(
            last.iter()
                .enumerate()
                .all(|(at, found)| *found == byte(3, at))
        );
        Ok(())
    }

    fn each(&self) -> Result<(), Told> {
        let options = LoadOptions::default().bytes_in_flight(50_000);
        for tensor in self.weights.load_each(&self.backend, self.kind, &options)? {
            drop(tensor?);
        }
        Ok(())
    }

    fn save(&self) -> Result<(), Told> {
        let mut save = Save::new();
        for tensor in &self.witness {
            save.tensor(tensor)?;
        }
        let path = self.folder.path("saved");
        save.write(&path)?;
        std::fs::remove_file(path).unwrap();
        Ok(())
    }
}

const MACHINES: &[(Gpu, BufferKind)] = &[
    (Gpu::H200, BufferKind::Unified),
    (Gpu::Gh200, BufferKind::Unified),
    (Gpu::NoConcurrentAccess, BufferKind::Cuda),
];

const SCENARIOS: &[Scenario<World>] = &[
    Scenario {
        name: "load",
        machines: MACHINES,
        run: World::load,
    },
    Scenario {
        name: "each",
        machines: MACHINES,
        run: World::each,
    },
    Scenario {
        name: "save",
        machines: MACHINES,
        run: World::save,
    },
];

#[test]
fn every_call_behind_a_load_fails_once() {
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        for &machine in scenario.machines {
            let failures = each_once(&usual(scenario, machine), 1);
            all.extend(failures.into_iter().map(|failure| Combination {
                scenario,
                machine,
                failures: vec![failure],
            }));
        }
    }
    let struck = run_all(&all, &Rules::default()).get(&1).copied();
    assert!(struck > Some(100), "{struck:?}");
}

#[test]
fn storage_is_not_read_after_a_failure() {
    let mut storage = Storage::of(model());
    storage.fails_at = Some((5000, ErrorKind::Other));
    let (storage, weights) = storage.open();
    let (_sim, backend) = machine(Gpu::H200);
    weights
        .unwrap()
        .load(&backend, BufferKind::Cuda, &LoadOptions::default())
        .unwrap_err();
    // The header, and the pieces that were being read.
    assert!(storage.read.load(Ordering::Relaxed) < 50_000);
    let whole = Storage::of(model()).open().1.unwrap();
    let tensors = whole
        .load(&backend, BufferKind::Cuda, &LoadOptions::default())
        .unwrap();
    assert_eq!(bytes_of(&tensors["second"])[..2], [byte(1, 0), byte(1, 1)]);
}
