//! One file, or other storage.

use std::collections::BTreeMap;
use std::fs::{self, File, FileType};
use std::io;
use std::path::Path;
use std::sync::Arc;

use um_backend::cuda_um::buffer::{ReadAt, read_into};

use crate::error::{Error, Result};
use crate::info::{TensorInfo, whole};
use crate::{foreign, gguf, header};

/// Storage that is open.
pub(crate) struct Shard {
    pub(crate) path: Arc<Path>,
    pub(crate) source: Arc<dyn ReadAt>,
    /// The same, if it is a file.
    pub(crate) file: Option<Opening>,
    /// The size when it was opened.
    pub(crate) bytes: u64,
    /// The name of the format, once the header was read.
    pub(crate) format: &'static str,
    /// If the file says that it is a part of several.
    pub(crate) split: Option<Split>,
}

/// A file that stays open, or that each use opens again: a process has few open files, often 1024.
pub(crate) enum Opening {
    Open(Arc<File>),
    #[cfg(unix)]
    Again(Arc<Again>),
}

/// The absolute path of a file, its device and its number.
#[cfg(unix)]
pub(crate) struct Again(std::path::PathBuf, (u64, u64));

impl Opening {
    pub(crate) fn file(&self) -> io::Result<Arc<File>> {
        match self {
            Self::Open(file) => Ok(file.clone()),
            #[cfg(unix)]
            Self::Again(again) => again.open().map(Arc::new),
        }
    }
}

#[cfg(unix)]
impl Again {
    fn id(file: &File) -> io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        file.metadata().map(|found| (found.dev(), found.ino()))
    }

    fn open(&self) -> io::Result<File> {
        let file = open(&self.0)?;
        match Self::id(&file)? == self.1 {
            true => Ok(file),
            false => Err(io::Error::other(
                "another file has its place since it was opened",
            )),
        }
    }
}

#[cfg(unix)]
impl ReadAt for Again {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(&self.open()?, into, offset)
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A FIFO that came meanwhile does not keep the call waiting.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    options.open(path)
}

/// What a part of a split GGUF file says.
pub(crate) struct Split {
    /// The number of the part, from 0, and that of all parts.
    pub(crate) part: (u64, u64),
    /// The tensors of this part.
    pub(crate) tensors: u64,
    /// The tensors of all parts, if it says so.
    pub(crate) all_tensors: Option<u64>,
}

/// What a header says.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) format: &'static str,
    /// In the order of the file.
    pub(crate) tensors: Vec<TensorInfo>,
    pub(crate) metadata: BTreeMap<String, String>,
    /// The end of the last tensor.
    pub(crate) end: u64,
}

impl Shard {
    /// Opens a regular file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = Error::of_file(path, "open");
        // Before it is opened, because the opening of a device may have effects.
        check_regular(
            path,
            "open",
            fs::metadata(path).map_err(&failed)?.file_type(),
        )?;
        let file = self::open(path).map_err(&failed)?;
        let metadata = file.metadata().map_err(&failed)?;
        check_regular(path, "open", metadata.file_type())?;
        let file = Arc::new(file);
        Ok(Self {
            path: path.into(),
            source: file.clone(),
            file: Some(Opening::Open(file)),
            bytes: metadata.len(),
            format: "",
            split: None,
        })
    }

    /// Closes a file, which each use opens again.
    pub(crate) fn close(&mut self) {
        #[cfg(unix)]
        if let Some(Opening::Open(file)) = &self.file
            && let (Ok(path), Ok(id)) = (std::path::absolute(&self.path), Again::id(file))
        {
            let again = Arc::new(Again(path, id));
            self.source = again.clone();
            self.file = Some(Opening::Again(again));
        }
    }

    /// Reads and checks the header.
    pub(crate) fn content(&self) -> Result<Content> {
        let mut magic = [0; 4];
        if self.bytes >= 4 {
            self.read(0, &mut magic)?;
        }
        let content = match &magic {
            gguf::MAGIC => gguf::read(self),
            _ => header::read(self).map_err(|error| self.other(error)),
        }?;
        match self.bytes.saturating_sub(content.end) {
            0 => Ok(content),
            unused => {
                let reason = format!("the last {unused} bytes belong to no tensor");
                Err(self.wrong(content.end, reason))
            }
        }
    }

    /// The error of a file that is no file of weights: says what it is, if its first bytes tell it.
    pub(crate) fn other(&self, error: Error) -> Error {
        let mut first = vec![0; self.bytes.min(64) as usize];
        match self.read(0, &mut first) {
            Ok(()) => foreign::name(&first).map_or(error, |text| self.wrong(0, text)),
            Err(_) => error,
        }
    }

    /// Reads the text of a header or an index.
    pub(crate) fn text(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let most = header::MOST_HEADER.min(self.bytes - offset);
        if bytes > most {
            let reason =
                format!("the header has {bytes} bytes, and at most {most} are allowed here");
            return Err(self.wrong(0, reason));
        }
        let mut text = vec![0; bytes as usize];
        self.read(offset, &mut text)?;
        Ok(text)
    }

    /// Reads bytes of the header.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let read = self.read_data(offset, into);
        let failed = Error::of_file(&self.path, "read of the header");
        read.map_err(|(_, source)| failed(source))
    }

    /// Reads bytes; an error comes with the number of bytes before it.
    pub(crate) fn read_data(&self, offset: u64, into: &mut [u8]) -> Result<(), (usize, io::Error)> {
        let bytes = into.len();
        read_into(&*self.source, &[whole(offset, bytes)], 0..bytes, into)
    }

    /// The error of a read of a tensor's bytes.
    pub(crate) fn failed(&self, tensor: &str, at: u64, source: io::Error) -> Error {
        let (file, tensor, opened_bytes) = (self.path.to_path_buf(), tensor.into(), self.bytes);
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::Shrunk {
                file,
                tensor,
                at,
                opened_bytes,
            },
            _ => Error::Read {
                file,
                tensor,
                at,
                source,
            },
        }
    }

    pub(crate) fn wrong(&self, at: u64, reason: String) -> Error {
        Error::Format {
            file: self.path.to_path_buf(),
            at,
            reason,
        }
    }

    pub(crate) fn wrong_tensor(&self, tensor: &str, at: u64, reason: String) -> Error {
        Error::Tensor {
            file: self.path.to_path_buf(),
            tensor: tensor.to_owned(),
            at,
            reason,
        }
    }
}

/// Refuses folders, FIFOs, sockets and devices.
pub(crate) fn check_regular(path: &Path, call: &'static str, kind: FileType) -> Result<()> {
    #[cfg(unix)]
    use std::os::unix::fs::FileTypeExt;
    let found = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a folder",
        #[cfg(unix)]
        kind if kind.is_fifo() => "a FIFO",
        #[cfg(unix)]
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let text = format!("it is {found}, and weights are in regular files");
    let reason = match kind.is_dir() {
        true => io::ErrorKind::IsADirectory,
        false => io::ErrorKind::InvalidInput,
    };
    let source = io::Error::new(reason, text);
    Err(Error::of_file(path, call)(source))
}
