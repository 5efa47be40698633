//! What the tests share: files, storage that fails, backends.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use cuda_um_testkit::Checked;
use um_backend::cuda_um::buffer::{ReadAt, TransferOptions};
use um_backend::sim::{Gpu, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig};
use um_weights::{LoadOptions, Tensor, Weights};

/// A simulated machine, which is checked for leaks at the end, and a backend with a small ring: two threads, chunks of 16 KiB.
pub fn machine(gpu: Gpu) -> (Checked, CudaBackend) {
    let sim = Checked::new(Sim::builder().gpu(gpu).build().unwrap());
    let config = CudaBackendConfig::default().simulator((*sim).clone());
    let backend = CudaBackend::initialize_blocking(config).unwrap();
    let ring = TransferOptions::default().threads(2).ring_bytes(RING);
    backend.device().set_transfer_options(ring);
    (sim, backend)
}

pub const RING: usize = 2 * 2 * 16384;

/// A backend that tests share, which is not checked.
pub fn backend() -> CudaBackend {
    static SHARED: LazyLock<CudaBackend> = LazyLock::new(|| {
        let config = CudaBackendConfig::default().simulator(Sim::builder().build().unwrap());
        CudaBackend::initialize_blocking(config).unwrap()
    });
    SHARED.clone()
}

/// A folder that is removed at the end.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// The byte of a tensor at a position.
pub fn byte(tensor: usize, at: usize) -> u8 {
    (tensor * 31 + at * 7 + at / 251) as u8
}

/// A safetensors file with these tensors: name, type, shape, bytes. The crate `safetensors` writes it in another order.
pub fn safetensors(tensors: &[(&str, &str, &[usize], usize)]) -> Vec<u8> {
    let (mut entries, mut end) = (Vec::new(), 0);
    for (name, dtype, shape, bytes) in tensors {
        let next = end + bytes;
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{end},{next}]}}"#
        ));
        end = next;
    }
    let mut file = with_header(&format!("{{{}}}", entries.join(",")));
    for (number, (.., bytes)) in tensors.iter().enumerate() {
        file.extend((0..*bytes).map(|at| byte(number, at)));
    }
    file
}

pub fn with_header(header: &str) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file
}

/// Storage that counts what is read, returns few bytes at a time, is interrupted, and fails at a position.
#[derive(Default)]
pub struct Storage {
    pub bytes: Vec<u8>,
    pub at_a_time: Option<usize>,
    pub interrupts: bool,
    pub fails_at: Option<(u64, ErrorKind)>,
    pub read: AtomicU64,
    calls: AtomicUsize,
}

impl Storage {
    pub fn of(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    pub fn open(self) -> (Arc<Self>, Result<Weights, um_weights::Error>) {
        let storage = Arc::new(self);
        let bytes = storage.bytes.len() as u64;
        let weights = Weights::from_storage("storage", storage.clone(), bytes);
        (storage, weights)
    }
}

impl ReadAt for Storage {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.interrupts && call % 3 == 1 {
            return Err(ErrorKind::Interrupted.into());
        }
        let mut end = self.bytes.len() as u64;
        if let Some((at, kind)) = self.fails_at {
            match (offset >= at, kind) {
                (true, ErrorKind::UnexpectedEof) => return Ok(0),
                (true, kind) => return Err(kind.into()),
                (false, _) => end = at,
            }
        }
        let from = &self.bytes[offset.min(end) as usize..end as usize];
        let most = self.at_a_time.unwrap_or(usize::MAX);
        let count = from.len().min(into.len()).min(most);
        into[..count].copy_from_slice(&from[..count]);
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

pub fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    tensor.buffer().read().unwrap().bytes().to_vec().unwrap()
}

/// All tensors, with the options that are the default.
pub fn load(
    weights: &Weights,
    backend: &CudaBackend,
    kind: BufferKind,
) -> BTreeMap<Arc<str>, Tensor> {
    let options = LoadOptions::default();
    weights.load(backend, kind, &options).unwrap()
}

/// The first bytes of a tensor, as [`safetensors`] writes them.
pub fn written(tensor: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| byte(tensor, at)).collect()
}

pub fn load_all(
    weights: &Weights,
    backend: &CudaBackend,
    kind: BufferKind,
) -> Vec<(String, Vec<u8>)> {
    let tensors = load(weights, backend, kind).into_iter();
    tensors
        .map(|(name, tensor)| (name.to_string(), bytes_of(&tensor)))
        .collect()
}
