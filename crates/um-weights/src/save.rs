//! Files, written.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata as Header, TensorInfo as Declared};
use tempfile::NamedTempFile;
use um_backend::{CudaError, ErasedBuffer};

use crate::error::{Error, Result};
use crate::header::MOST_HEADER;
use crate::info;
use crate::kinds;
use crate::shard::check_regular;
use crate::tensor::Tensor;

/// The bytes of the file begin at a multiple of this, so that a mapped tensor is aligned for any type.
const ALIGN: usize = 256;

/// A safetensors file to write, from buffers of any kind and tensors that were loaded.
///
/// ```
/// use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType};
/// use um_weights::{Save, Weights};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let bias = backend.create_erased(BufferKind::Cuda, DType::BF16, 4)?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// let mut save = Save::new();
/// save.metadata("format", "pt");
/// save.buffer("bias", &[2, 2], &bias)?;
/// save.write(&path)?;
/// let weights = Weights::open([&path])?;
/// assert_eq!(weights.tensor("bias").unwrap().shape(), [2, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Save<'a> {
    metadata: BTreeMap<String, String>,
    names: HashSet<String>,
    tensors: Vec<Item<'a>>,
}

#[derive(Debug)]
struct Item<'a> {
    name: String,
    declared: Declared,
    from: Contents<'a>,
}

#[derive(Debug)]
enum Contents<'a> {
    Buffer(&'a ErasedBuffer),
    Tensor(&'a Tensor),
}

impl<'a> Save<'a> {
    /// Begins a file without tensors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry to the metadata.
    pub fn metadata(&mut self, key: &str, value: &str) -> &mut Self {
        self.metadata.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a tensor of this shape with the elements of a buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a type that safetensors does not have, a shape of another size than the buffer, and a name that is there already.
    pub fn buffer(&mut self, name: &str, shape: &[usize], buffer: &'a ErasedBuffer) -> Result<()> {
        let dtype = buffer.dtype();
        let other = dtype.to_string();
        let type_name = dtype.safetensors_name().unwrap_or(&other);
        let from = Contents::Buffer(buffer);
        self.add(name, type_name, shape, buffer.size_bytes(), from)
    }

    /// Adds a tensor that was loaded, with its name.
    ///
    /// # Errors
    ///
    /// As for [`buffer`](Self::buffer).
    pub fn tensor(&mut self, tensor: &'a Tensor) -> Result<()> {
        let info = tensor.info();
        let bytes = tensor.buffer().size_bytes();
        let from = Contents::Tensor(tensor);
        self.add(info.name(), info.dtype_name(), tensor.shape(), bytes, from)
    }

    fn add(
        &mut self,
        name: &str,
        type_name: &str,
        shape: &[usize],
        bytes: usize,
        from: Contents<'a>,
    ) -> Result<()> {
        let refused = |reason: String| Error::refused(name, reason);
        let dtype = kinds::to_safetensors(type_name)
            .ok_or_else(|| refused(format!("safetensors files have no type {type_name}")))?;
        let bits = info::elements(shape).and_then(|elements| elements.checked_mul(dtype.bitsize()));
        if bits != bytes.checked_mul(8) {
            let reason = "does not have the bytes of the buffer";
            return Err(refused(format!(
                "shape {shape:?} of {type_name} {reason}: {bytes}"
            )));
        }
        if name == "__metadata__" || !self.names.insert(name.to_owned()) {
            return Err(refused("the file has this name already".to_owned()));
        }
        let declared = Declared {
            dtype,
            shape: shape.to_vec(),
            data_offsets: (0, bytes),
        };
        self.tensors.push(Item {
            name: name.to_owned(),
            declared,
            from,
        });
        Ok(())
    }

    /// Writes the file: beside its place first, to the end and to the disk, and then under its name. After a failure the old file is as it was.
    /// Types with larger elements come first, as the crate `safetensors` writes them.
    ///
    /// A link stays, and its file is replaced. The file keeps its mode; another hard link keeps the old contents. Where the file system has files
    /// without names (`O_TMPFILE`), a process that is killed leaves nothing, or, if it replaces a file and is killed between the last two steps, the
    /// complete new file under a hidden name; otherwise a hidden file beside the target. Where the folder cannot be synced, a failure of the power may
    /// bring the old file back.
    ///
    /// # Ordering
    ///
    /// Waits for work that writes the buffers.
    ///
    /// # Errors
    ///
    /// [`Error::File`], also for a full disk, and for a target that is no regular file or may not be written; [`Error::Cuda`] if a buffer cannot
    /// be read.
    pub fn write(mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let failed = |call| Error::of_file(path, call);
        self.arrange();
        let tensors = self.tensors.iter();
        let tensors = tensors.map(|item| (&*item.name, &item.declared));
        let header = header(self.metadata, tensors, path)?;
        let (target, old) = target(path)?;
        let folder = folder(&target);
        // No other process opens it before it has the mode of the old file.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let beside = Beside::new(folder, mode).map_err(failed("create"))?;
        let file = beside.file();
        if let Some(old) = old {
            // Before a byte is in it. Only root may give it another owner.
            #[cfg(unix)]
            keep_owner(file, &old);
            file.set_permissions(old.permissions())
                .map_err(failed("set of the mode"))?;
        }
        let mut to = BufWriter::with_capacity(1 << 20, file);
        to.write_all(&header).map_err(failed("write"))?;
        for item in &self.tensors {
            item.write(&mut to, path)?;
        }
        to.flush().map_err(failed("write"))?;
        drop(to);
        file.sync_all().map_err(failed("sync"))?;
        beside.rename(folder, &target).map_err(failed("rename"))?;
        // The new file is there, also if its folder may not be read or cannot be synced.
        #[cfg(unix)]
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Sorts the tensors, and gives each its place.
    fn arrange(&mut self) {
        self.tensors.sort_by(|a, b| {
            let by_type = b.declared.dtype.cmp(&a.declared.dtype);
            by_type.then_with(|| a.name.cmp(&b.name))
        });
        let mut at = 0;
        for item in &mut self.tensors {
            // Before, they are those of a file with this tensor only.
            let end = at + item.declared.data_offsets.1;
            item.declared.data_offsets = (at, end);
            at = end;
        }
    }
}

/// The file that a path means, through links, and what is there now: only a regular file that may be written is replaced.
fn target(path: &Path) -> Result<(PathBuf, Option<Metadata>)> {
    let failed = Error::of_file(path, "open");
    let mut target = path.to_path_buf();
    // The system's limit. A link that goes round is an error of the metadata.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&target) else {
            break;
        };
        target = folder(&target).join(next);
    }
    match fs::metadata(path) {
        Ok(old) => {
            check_regular(path, "open", old.file_type())?;
            if old.permissions().readonly() {
                let reason = io::Error::new(ErrorKind::PermissionDenied, "it is read-only");
                return Err(failed(reason));
            }
            File::options().write(true).open(&target).map_err(failed)?;
            Ok((target, Some(old)))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok((target, None)),
        Err(error) => Err(failed(error)),
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) {
    use std::os::unix::fs::MetadataExt;
    if let Ok(new) = file.metadata()
        && (new.uid(), new.gid()) != (old.uid(), old.gid())
    {
        let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
    }
}

/// A new file in the folder of its target.
enum Beside {
    /// It has no name yet.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// Its drop removes it.
    Hidden(NamedTempFile),
}

impl Beside {
    fn new(folder: &Path, mode: u32) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags, open};
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            // Without /proc it could not get a name, and not every file system has such files.
            if Path::new("/proc/self/fd").exists()
                && let Ok(file) = open(folder, flags, Mode::from(mode))
            {
                return Ok(Self::Unnamed(file.into()));
            }
        }
        let mut names = hidden();
        #[cfg(unix)]
        names.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
        #[cfg(not(unix))]
        let _ = mode;
        names.tempfile_in(folder).map(Self::Hidden)
    }

    fn file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => file,
            Self::Hidden(file) => file.as_file(),
        }
    }

    fn rename(self, folder: &Path, target: &Path) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => {
                use std::os::fd::AsRawFd;

                use rustix::fs::{AtFlags, CWD, linkat};
                let from = format!("/proc/self/fd/{}", file.as_raw_fd());
                // `linkat` replaces no file.
                let link = |path: &Path| -> io::Result<()> {
                    Ok(linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
                };
                if link(target).is_ok() {
                    return Ok(());
                }
                hidden()
                    .make_in(folder, link)?
                    .into_temp_path()
                    .persist(target)?;
            }
            Self::Hidden(file) => drop(file.persist(target)?),
        }
        Ok(())
    }
}

/// The names of files beside the target.
fn hidden() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".um-weights-");
    names
}

/// The bytes before the tensors of a safetensors file.
fn header<'a>(
    metadata: BTreeMap<String, String>,
    tensors: impl Iterator<Item = (&'a str, &'a Declared)>,
    path: &Path,
) -> Result<Vec<u8>> {
    let tensors = tensors.map(|(name, declared)| (name.to_owned(), declared.clone()));
    let metadata = Some(metadata).filter(|entries| !entries.is_empty());
    let metadata = metadata.map(|entries| entries.into_iter().collect());
    let wrong = |reason: String| Error::Format {
        file: path.into(),
        at: 0,
        reason: format!("the header cannot be written: {reason}"),
    };
    let text = Header::new(metadata, tensors.collect())
        .and_then(|metadata| Ok(serde_json::to_vec(&metadata)?))
        .map_err(|error| wrong(error.to_string()))?;
    let length = (8 + text.len()).next_multiple_of(ALIGN) - 8;
    if length as u64 > MOST_HEADER {
        let reason = format!("it has {length} bytes, and at most {MOST_HEADER} are allowed");
        return Err(wrong(reason));
    }
    let mut header = (length as u64).to_le_bytes().to_vec();
    header.extend(text);
    header.resize(8 + length, b' ');
    Ok(header)
}

impl Item<'_> {
    fn write(&self, to: &mut impl Write, path: &Path) -> Result<()> {
        let written = match self.from {
            Contents::Buffer(buffer) => buffer.bytes().write_to(to, 0..buffer.size_bytes()),
            Contents::Tensor(tensor) => {
                let part = tensor.buffer().read();
                part.and_then(|part| part.bytes().write_to(to, 0..part.size_bytes()))
            }
        };
        written.map_err(|error| match error {
            CudaError::Io { source, .. } => Error::of_file(path, "write")(source),
            error => Error::of_cuda(&self.name)(error),
        })
    }
}
