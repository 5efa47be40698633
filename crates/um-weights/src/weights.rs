//! Files that are open, and what they have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Component, Path};
use std::sync::Arc;

use serde::Deserialize;
use um_backend::cuda_um::buffer::ReadAt;
use um_backend::memory::BufferMemoryMut;
use um_backend::{BufferKind, CudaBackend};

use crate::each::LoadEach;
use crate::error::{Error, Result};
use crate::info::TensorInfo;
use crate::load::{self, Job};
use crate::options::LoadOptions;
use crate::shard::{Shard, Split};
use crate::tensor::Tensor;
use crate::unique::Unique;

/// The tensors of safetensors and GGUF files. A clone is the same.
///
/// ```
/// use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType};
/// use um_weights::{LoadOptions, Save, Weights};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # use um_backend::Buffer;
/// # let mut first = backend.create_erased(BufferKind::Host, DType::F32, 6)?;
/// # first.typed_mut::<f32>()?.fill_range(0..6, 0.5)?;
/// # let mut save = Save::new();
/// # save.buffer("layer.0.weight", &[2, 3], &first)?;
/// # save.write(&path)?;
/// let weights = Weights::open([&path])?;
/// assert_eq!(weights.tensor("layer.0.weight").unwrap().shape(), [2, 3]);
///
/// let mut tensors = weights.load(&backend, BufferKind::Unified, &LoadOptions::default())?;
/// assert_eq!(*tensors["layer.0.weight"].buffer().host::<f32>()?, [0.5; 6]);
/// let bias: um_backend::SharedBuffer = tensors.remove("layer.0.weight").unwrap().into_buffer();
///
/// // Into memory of the program, and from storage that is no file.
/// let storage = std::sync::Arc::new(std::fs::File::open(&path)?); // any `ReadAt`
/// let weights = Weights::from_storage("model.safetensors", storage, std::fs::metadata(&path)?.len())?;
/// let mut target = backend.create_erased(BufferKind::Cuda, DType::F32, 6)?;
/// weights.load_into(vec![("layer.0.weight", target.bytes_mut().memory_mut())], &LoadOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Weights {
    pub(crate) opened: Arc<Opened>,
}

/// The files that stay open.
const MOST_OPEN: usize = 256;

#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) shards: Vec<Shard>,
    /// In the order of the files, and within each in that of the file.
    pub(crate) tensors: Arc<Vec<TensorInfo>>,
    by_name: HashMap<Arc<str>, usize>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: Unique<String>,
}

impl Weights {
    /// Opens files and checks their headers: safetensors, GGUF, and indexes (`model.safetensors.index.json`), whose files are beside them.
    /// The first bytes of a file tell its format; an index is named `….json`. The first 256 files stay open until the value and what it loads are
    /// dropped; each read opens a later one again, and another file in its place is an error.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for a file that cannot be opened or is no regular file; [`Error::Format`] and [`Error::Tensor`] for a header that is wrong in
    /// itself or does not fit the file: types, shapes whose size overflows, tensors that overlap, leave gaps or end behind the file; and for equal
    /// names, and an index that does not fit its files; [`Error::MissingShard`]; [`Error::MissingPart`] for a part of a split GGUF file without the
    /// others.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let mut opened = Opened::default();
        for path in paths {
            let path = path.as_ref();
            match path.extension() {
                Some(extension) if extension == "json" => opened.add_index(path)?,
                _ => opened.add(Shard::open(path)?, |_| true)?,
            }
        }
        opened.finish()
    }

    /// Reads the header of one file in other storage, such as an archive or a store of objects. `name` stands for its path in errors.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn from_storage(name: &str, storage: Arc<dyn ReadAt>, bytes: u64) -> Result<Self> {
        let shard = Shard {
            path: Path::new(name).into(),
            source: storage,
            file: None,
            bytes,
            format: "",
            split: None,
        };
        let mut opened = Opened::default();
        opened.add(shard, |_| true)?;
        opened.finish()
    }

    /// Returns all tensors, in the order of the files.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.opened.tensors
    }

    /// Returns the tensor with this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        let index = self.opened.by_name.get(name)?;
        Some(&self.opened.tensors[*index])
    }

    /// Returns the metadata of all files: those of a later file replace equal keys. Values of GGUF are texts, and arrays their type and length
    /// (`"[u32; 4]"`).
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.opened.metadata
    }

    /// Returns the files with the names of their formats.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &'static str)> {
        let shards = self.opened.shards.iter();
        shards.map(|shard| (&*shard.path, shard.format))
    }

    /// Returns the size of all tensors, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.tensors().iter().map(|info| info.bytes as u64).sum()
    }

    /// Loads tensors into buffers of a kind, in the order of the files, and returns them by name. Each byte is read once.
    ///
    /// Several threads read pieces straight into the pinned memory for copies, while the copy engine moves those before them
    /// ([`Device::set_transfer_options`](um_backend::Device::set_transfer_options)); memory that the host reaches is read into directly. Tensors
    /// below 1 MiB that follow each other share an allocation, in which each begins at a multiple of 256 bytes; larger ones have their own. Each
    /// tensor has a lock, a name and uses of its own.
    ///
    /// # Ordering
    ///
    /// Copies may still run when this returns; later uses of the buffers are ordered after them.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] before a byte is read; [`Error::Read`], [`Error::Shrunk`], [`Error::Cuda`], [`Error::Stopped`], and [`Error::File`] if the
    /// system refuses a thread. All memory is then given back.
    pub fn load(
        &self,
        backend: &CudaBackend,
        kind: BufferKind,
        options: &LoadOptions,
    ) -> Result<BTreeMap<Arc<str>, Tensor>> {
        let job = Job::new(&self.opened, (backend, kind), options, usize::MAX)?;
        let mut loaded = Vec::new();
        job.run(&mut |tensor| loaded.push((Arc::clone(&tensor.info().name), tensor)))?;
        // Most files have the order of the names, for which this is much faster than to insert one by one.
        Ok(loaded.into_iter().collect())
    }

    /// Loads tensors as [`load`](Self::load) does, on a thread of its own, and returns them as they arrive. The thread waits if the tensors that
    /// were not taken have [`LoadOptions::bytes_in_flight`], and ends when the iterator is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`], and [`Error::File`] if the system refuses the thread. Other errors of [`load`](Self::load) end the iterator; those tensors
    /// that it returned before stay valid.
    pub fn load_each(
        &self,
        backend: &CudaBackend,
        kind: BufferKind,
        options: &LoadOptions,
    ) -> Result<LoadEach> {
        let most = options.bytes_in_flight;
        LoadEach::start(Job::new(&self.opened, (backend, kind), options, most)?)
    }

    /// Loads tensors into memory that is there already: bytes of the host, or views of buffers on one device, such as memory of another library
    /// that a buffer has [imported](um_backend::cuda_um::DeviceBuffer::from_foreign). [`LoadOptions::only`] and
    /// [`map_files`](LoadOptions::map_files) do not apply.
    ///
    /// # Ordering
    ///
    /// As for [`load`](Self::load).
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a name that the files do not have or that is there twice, memory of another size than the tensor or slice, and memory
    /// of several kinds. Otherwise as for [`load`](Self::load); the memory then has some of the bytes.
    pub fn load_into(
        &self,
        targets: Vec<(&str, BufferMemoryMut<'_, u8>)>,
        options: &LoadOptions,
    ) -> Result<()> {
        load::into(&self.opened, targets, options)
    }
}

impl std::fmt::Debug for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weights")
            .field("files", &self.files().collect::<Vec<_>>())
            .field("tensors", &self.tensors().len())
            .field("size_bytes", &self.size_bytes())
            .finish()
    }
}

impl Opened {
    /// Adds those tensors of a file that are wanted.
    fn add(&mut self, mut shard: Shard, mut is_wanted: impl FnMut(&str) -> bool) -> Result<()> {
        let content = shard.content()?;
        shard.format = content.format;
        let number = |key| content.metadata.get(key)?.parse::<u64>().ok();
        if let Some(parts) = number("split.count").filter(|parts| *parts > 1) {
            let part = number("split.no").ok_or_else(|| {
                let reason = format!("it is one of {parts} parts, and no `split.no` says which");
                shard.wrong(0, reason)
            })?;
            shard.split = Some(Split {
                part: (part, parts),
                tensors: content.tensors.len() as u64,
                all_tensors: number("split.tensors.count"),
            });
        }
        let tensors = content.tensors.into_iter();
        let tensors = tensors.filter(|info| is_wanted(&info.name));
        let number = self.shards.len();
        let tensors = tensors.map(|info| TensorInfo {
            shard: number,
            ..info
        });
        Arc::make_mut(&mut self.tensors).extend(tensors);
        if self.shards.len() >= MOST_OPEN {
            shard.close();
        }
        self.shards.push(shard);
        self.metadata.extend(content.metadata);
        Ok(())
    }

    /// Refuses equal names, and parts without the others.
    fn finish(mut self) -> Result<Weights> {
        for shard in &self.shards {
            let Some(split) = &shard.split else {
                continue;
            };
            let (part, parts) = split.part;
            let all = self.shards.iter().filter_map(|shard| shard.split.as_ref());
            let all: Vec<_> = all.filter(|split| split.part.1 == parts).collect();
            let has = |part| all.iter().any(|split| split.part.0 == part);
            if let Some(missing) = (0..parts).find(|part| !has(*part)) {
                return Err(Error::MissingPart {
                    file: shard.path.to_path_buf(),
                    part: part.saturating_add(1),
                    parts,
                    missing: missing + 1,
                });
            }
            let found: u64 = all.iter().map(|split| split.tensors).sum();
            if let Some(says) = split.all_tensors.filter(|says| found < *says) {
                let reason = format!(
                    "the {parts} parts have {found} tensors, and it says that they have {says}: are they parts of one file?"
                );
                return Err(shard.wrong(0, reason));
            }
        }
        for (index, info) in self.tensors.iter().enumerate() {
            if let Some(other) = self.by_name.insert(info.name.clone(), index) {
                let reason = format!(
                    "a name has one tensor, and it is also in {} (an index tells which file has it)",
                    self.tensors[other].file.display()
                );
                let shard = &self.shards[info.shard];
                return Err(shard.wrong_tensor(&info.name, info.offset, reason));
            }
        }
        Ok(Weights {
            opened: Arc::new(self),
        })
    }

    fn add_index(&mut self, path: &Path) -> Result<()> {
        let file = Shard::open(path)?;
        let wrong = |reason: String| file.wrong(0, reason);
        let text = file.text(0, file.bytes)?;
        let index: Index = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("the index is not valid: {error}")))
            .map_err(|error| match text.trim_ascii_start() {
                [b'{' | b'[', ..] => error,
                _ => file.other(error),
            })?;
        let mut of_shard = BTreeMap::<&str, HashSet<&str>>::new();
        for (tensor, shard) in &index.weight_map.0 {
            of_shard.entry(shard).or_default().insert(tensor);
        }
        for (name, mut tensors) in of_shard {
            let parts: Vec<_> = Path::new(name).components().collect();
            let [Component::Normal(_)] = parts[..] else {
                let what = "is not the name of a file beside the index";
                return Err(wrong(format!("the file {name:?} {what}")));
            };
            let missing = |error| Error::MissingShard {
                index: path.into(),
                shard: name.to_owned(),
                source: Box::new(error),
            };
            let shard = Shard::open(&path.with_file_name(name)).map_err(missing)?;
            self.add(shard, |tensor| tensors.remove(tensor))?;
            if let Some(tensor) = tensors.iter().next() {
                let reason = format!("the index has it in {name:?}, which does not have it");
                return Err(file.wrong_tensor(tensor, 0, reason));
            }
        }
        Ok(())
    }
}
