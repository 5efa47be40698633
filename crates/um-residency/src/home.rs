//! The homes of buffers: where their contents are while they are not in the arena.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use cuda_um_sys::locks::RwLock;
use um_backend::CudaError;
use um_backend::cuda_um::buffer::{FileRead, Runs, read_into};
use um_backend::cuda_um::{Device, DeviceBuffer, PinnedBuffer, Stream, View, ViewMut};

use crate::access::Role;
use crate::host_memory::HostMemory;

type Result<T, E = CudaError> = um_backend::Result<T, E>;

/// The home of a buffer.
pub(crate) enum Home {
    /// None yet: the contents are zeros, or in the arena.
    Nowhere,
    Memory(Box<dyn HostMemory>),
    /// A file, from this byte on.
    File(Arc<File>, u64),
}

/// A home that several threads use: transfers, and the host. Pins keep a write apart from all other uses, so this lock does not wait.
pub(crate) type SharedHome = Arc<RwLock<Home>>;

/// The bytes that a copy between a file and device memory has on the host at a time.
const PIECE: usize = 4 << 20;

impl Home {
    /// Whether a transfer needs the calling thread until its end.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(..))
    }

    /// Whether the contents are zeros, or in the arena.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Self::Nowhere)
    }

    /// Enqueues the copy of the home to device memory; for a file, reads it.
    pub(crate) fn bring_in(&self, to: &mut DeviceBuffer<u8>, stream: &Stream) -> Result<()> {
        match self {
            Self::Nowhere => Ok(to.fill_on(0, stream)?),
            Self::Memory(memory) => Ok(stream.copy(&memory.view()?, to)?),
            Self::File(..) => self.read_file(to.as_view_mut()),
        }
    }

    /// Enqueues the copy of device memory to the home; for a file, does it.
    pub(crate) fn write_back(&mut self, from: &DeviceBuffer<u8>, stream: &Stream) -> Result<()> {
        self.exists(&stream.device(), from.len())?;
        match self {
            Self::Nowhere => Ok(()),
            Self::Memory(memory) => Ok(stream.copy(from, &mut memory.view_mut()?)?),
            Self::File(..) => self.write_file(from.as_view()),
        }
    }

    /// Reads the first bytes of a file into device memory.
    pub(crate) fn read_file(&self, to: ViewMut<'_, u8>) -> Result<()> {
        let (Self::File(file, start), false) = (self, to.is_empty()) else {
            return Ok(());
        };
        let runs = [run(*start, to.len())];
        let read = FileRead::new(to, &**file, &runs)?;
        FileRead::run(&mut [read], usize::MAX, |_| ControlFlow::Continue(())).map(drop)
    }

    /// Writes device memory to the first bytes of a file.
    pub(crate) fn write_file(&mut self, from: View<'_, u8>) -> Result<()> {
        let Self::File(file, start) = self else {
            return Ok(());
        };
        let mut piece = vec![0; PIECE.min(from.len())];
        for at in (0..from.len()).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(from.len() - at)];
            from.copy_to_host_at(at, piece)?;
            write_at(file, piece, *start + at as u64).map_err(|source| CudaError::Io {
                call: "writing a home",
                done_bytes: at,
                total_bytes: from.len(),
                source,
            })?;
        }
        Ok(())
    }

    /// Makes a home of zeros if there is none.
    fn exists(&mut self, device: &Device, bytes: usize) -> Result<()> {
        if matches!(self, Self::Nowhere) {
            let zeros = PinnedBuffer::<u8>::zeroed(device, bytes)?;
            *self = Self::Memory(Box::new(zeros));
        }
        Ok(())
    }

    /// Copies bytes of the home to the host.
    pub(crate) fn get(&self, offset: usize, target: &mut [u8]) -> Result<()> {
        match self {
            _ if target.is_empty() => {}
            Self::Nowhere => target.fill(0),
            Self::Memory(memory) => {
                memory.view()?.copy_to_host_at(offset, target)?;
            }
            Self::File(file, start) => {
                let total = target.len();
                let runs = [run(start + offset as u64, total)];
                read_into(&**file, &runs, 0..total, target)
                    .map_err(|(_, error)| failed("reading a home", total, error))?;
            }
        }
        Ok(())
    }

    /// Waits for transfers to the home.
    pub(crate) fn settle(&self) -> Result<()> {
        match self {
            Self::Memory(memory) if !memory.view()?.is_empty() => {
                Ok(memory.view()?.copy_to_host_at(0, &mut [0])?)
            }
            _ => Ok(()),
        }
    }

    /// Copies bytes of the host to the home of a buffer of `bytes`.
    pub(crate) fn put(
        &mut self,
        offset: usize,
        source: &[u8],
        device: &Device,
        bytes: usize,
    ) -> Result<()> {
        self.exists(device, bytes)?;
        match self {
            Self::Nowhere => {}
            Self::Memory(memory) => memory.view_mut()?.copy_from_host_at(offset, source)?,
            Self::File(file, start) => has_all(file, *start + bytes as u64)
                .and_then(|()| write_at(file, source, *start + offset as u64))
                .map_err(|error| failed("writing a home", source.len(), error))?,
        }
        Ok(())
    }
}

/// A part of a file.
fn run(offset: u64, bytes: usize) -> Runs {
    Runs {
        offset,
        at: 0,
        bytes,
        count: 1,
        stride: 0,
    }
}

/// Refuses a file that became shorter: a write of a part would leave zeros in the place of other elements.
fn has_all(file: &File, end: u64) -> io::Result<()> {
    let has = file.metadata()?.len();
    if has >= end {
        return Ok(());
    }
    let reason = format!("the file has {has} bytes now, and the buffer ends at byte {end}");
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason))
}

fn failed(call: &'static str, total_bytes: usize, source: io::Error) -> CudaError {
    CudaError::Io {
        call,
        done_bytes: 0,
        total_bytes,
        source,
    }
}

/// Refuses a file that transfers cannot read, or cannot write at their place.
pub(crate) fn check_file(file: &File, role: Role) -> io::Result<()> {
    let refused = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    if !file.metadata()?.is_file() {
        return refused("the home of a buffer is a regular file");
    }
    match opened(file)? {
        Opened { appends: true, .. } => refused(
            "the file is open with `append(true)`, and all writes go to its end: open it with `read(true).write(true)`",
        ),
        Opened { direct: true, .. } => {
            refused("the file is open with `O_DIRECT`, which needs aligned memory: open it without")
        }
        Opened { reads: false, .. } => refused("the file is not open for reading"),
        Opened { writes: false, .. } if role != Role::ReadOnly => refused(
            "the file is not open for writing: open it with `read(true).write(true)`, or use `Role::ReadOnly`",
        ),
        _ => Ok(()),
    }
}

/// How a file was opened.
struct Opened {
    reads: bool,
    writes: bool,
    appends: bool,
    direct: bool,
}

#[cfg(unix)]
fn opened(file: &File) -> io::Result<Opened> {
    use rustix::fs::{OFlags, fcntl_getfl};
    let flags = fcntl_getfl(file)?;
    let access = flags & OFlags::RWMODE;
    #[cfg(target_os = "linux")]
    let (direct, no_access) = (flags.contains(OFlags::DIRECT), flags.contains(OFlags::PATH));
    #[cfg(not(target_os = "linux"))]
    let (direct, no_access) = (false, false);
    Ok(Opened {
        reads: !no_access && access != OFlags::WRONLY,
        writes: !no_access && access != OFlags::RDONLY,
        appends: flags.contains(OFlags::APPEND),
        direct,
    })
}

/// Windows does not tell: a transfer that is not allowed fails.
#[cfg(windows)]
fn opened(_file: &File) -> io::Result<Opened> {
    Ok(Opened {
        reads: true,
        writes: true,
        appends: false,
        direct: false,
    })
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, at)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => (bytes, at) = (&bytes[written..], at + written as u64),
        }
    }
    Ok(())
}
