//! Files that are open, and what they have.

use std::collections::{BTreeMap, HashSet};
use std::path::{Component, Path};
use std::sync::Arc;

use serde::Deserialize;
use um_backend::cuda_um::buffer::ReadAt;
use um_backend::memory::BufferMemoryMut;
use um_backend::{BufferKind, CudaBackend};

use crate::each::LoadEach;
use crate::error::{Error, Result};
use crate::header::MOST_HEADER;
use crate::info::TensorInfo;
use crate::load::{self, Job};
use crate::options::LoadOptions;
use crate::shard::Shard;
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

#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) shards: Vec<Shard>,
    formats: Vec<&'static str>,
    /// In the order of the files, and within each in that of the file.
    pub(crate) tensors: Arc<Vec<TensorInfo>>,
    /// Sorted by name.
    by_name: Vec<usize>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: Unique<String>,
}

impl Weights {
    /// Opens files and checks their headers: safetensors, GGUF, and indexes (`model.safetensors.index.json`), whose files are beside them.
    /// The first bytes of a file tell its format; an index is named `….json`.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for a file that cannot be opened or is no regular file; [`Error::Format`] and [`Error::Tensor`] for a header that is wrong in
    /// itself or does not fit the file: types, shapes whose size overflows, tensors that overlap, leave gaps or end behind the file; and for equal
    /// names, and an index that does not fit its files; [`Error::MissingShard`].
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
        let Opened {
            tensors, by_name, ..
        } = &*self.opened;
        let place = by_name.binary_search_by(|&index| (*tensors[index].name).cmp(name));
        place.ok().map(|place| &tensors[by_name[place]])
    }

    /// Returns the metadata of all files: those of a later file replace equal keys. Values of GGUF are texts, and arrays their type and length
    /// (`"[u32; 4]"`).
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.opened.metadata
    }

    /// Returns the files with the names of their formats.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &'static str)> {
        let paths = self.opened.shards.iter().map(|shard| &*shard.path);
        paths.zip(self.opened.formats.iter().copied())
    }

    /// Returns the size of all tensors, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let bytes = |info: &TensorInfo| info.bytes as u64;
        self.opened.tensors.iter().map(bytes).sum()
    }

    /// Loads tensors into buffers of a kind, in the order of the files, and returns them by name. Each byte is read once.
    ///
    /// Several threads read pieces straight into the pinned memory for copies, while the copy engine moves those before them
    /// ([`Device::set_transfer_options`](um_backend::Device::set_transfer_options)); memory that the host reaches is read into directly. Tensors
    /// below 1 MiB that follow each other share a buffer, in which each begins at a multiple of 256 bytes; larger ones have their own.
    ///
    /// # Ordering
    ///
    /// Copies may still run when this returns; later uses of the buffers are ordered after them.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] before a byte is read; [`Error::Read`], [`Error::Shrunk`], [`Error::Cuda`], [`Error::Stopped`]. All memory is then given back.
    pub fn load(
        &self,
        backend: &CudaBackend,
        kind: BufferKind,
        options: &LoadOptions,
    ) -> Result<BTreeMap<Arc<str>, Tensor>> {
        let job = Job::new(&self.opened, (backend, kind), options, usize::MAX)?;
        let mut loaded = Vec::with_capacity(job.tensors());
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
    fn add(&mut self, shard: Shard, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
        let content = shard.content()?;
        let mut tensors = content.tensors;
        tensors.retain(|info| is_wanted(&info.name));
        for info in &mut tensors {
            info.shard = self.shards.len();
        }
        Arc::make_mut(&mut self.tensors).append(&mut tensors);
        self.shards.push(shard);
        self.formats.push(content.format);
        self.metadata.extend(content.metadata);
        Ok(())
    }

    /// Sorts the tensors by name, and refuses equal names.
    fn finish(mut self) -> Result<Weights> {
        let tensors = &self.tensors;
        let mut by_name: Vec<usize> = (0..tensors.len()).collect();
        by_name.sort_by(|a, b| tensors[*a].name.cmp(&tensors[*b].name));
        let same = |pair: &&[usize]| tensors[pair[0]].name == tensors[pair[1]].name;
        if let Some(pair) = by_name.windows(2).find(same) {
            let [
                one,
                TensorInfo {
                    name, file, offset, ..
                },
            ] = [pair[0], pair[1]].map(|index| &tensors[index]);
            return Err(Error::Tensor {
                file: file.to_path_buf(),
                tensor: name.to_string(),
                at: *offset,
                reason: format!(
                    "a name has one tensor, and it is also in {} (an index tells which file has it)",
                    one.file.display()
                ),
            });
        }
        self.by_name = by_name;
        Ok(Weights {
            opened: Arc::new(self),
        })
    }

    fn add_index(&mut self, path: &Path) -> Result<()> {
        let file = Shard::open(path)?;
        let wrong = |reason: String| Err(file.wrong(0, reason));
        if file.bytes > MOST_HEADER {
            return wrong(format!(
                "an index has at most {MOST_HEADER} bytes, and this one {}",
                file.bytes
            ));
        }
        let mut text = vec![0; file.bytes as usize];
        file.read(0, &mut text)?;
        let index: Index = match serde_json::from_slice(&text) {
            Ok(index) => index,
            Err(error) => return wrong(format!("the index is not valid: {error}")),
        };
        let mut of_shard = BTreeMap::<&str, HashSet<&str>>::new();
        for (tensor, shard) in &index.weight_map.0 {
            of_shard.entry(shard).or_default().insert(tensor);
        }
        for (name, mut tensors) in of_shard {
            let mut parts = Path::new(name).components();
            if !matches!(
                (parts.next(), parts.next()),
                (Some(Component::Normal(_)), None)
            ) {
                return wrong(format!(
                    "the file {name:?} is not the name of a file beside the index"
                ));
            }
            let shard =
                Shard::open(&path.with_file_name(name)).map_err(|error| Error::MissingShard {
                    index: path.into(),
                    shard: name.to_owned(),
                    source: Box::new(error),
                })?;
            let before = self.tensors.len();
            self.add(shard, |tensor| tensors.contains(tensor))?;
            for info in &self.tensors[before..] {
                tensors.remove(&*info.name);
            }
            if let Some(tensor) = tensors.iter().next() {
                let reason =
                    format!("the index has it in the file {name:?}, which does not have it");
                return Err(file.wrong_tensor(tensor, 0, reason));
            }
        }
        Ok(())
    }
}
