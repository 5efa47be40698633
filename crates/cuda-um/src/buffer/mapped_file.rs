//! Unified buffers of mapped files.
#![allow(unsafe_code, reason = "maps files of the caller")]

use crate::DeviceCopy;
use crate::buffer::unified::{UnifiedBuffer, UnifiedOptions};
use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::placement::Data;
use crate::{element, range};
use memmap2::MmapOptions;
use std::fs::File;
use std::ops::{Range, RangeBounds};
use std::ptr::NonNull;

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// Makes a buffer to read of a range of bytes of a file, which is mapped into memory. On a device with pageable memory access, kernels read
    /// the mapping itself: no copy, and no memory beside the page cache. On other devices the buffer is a copy, unless the options ask for
    /// [`Placement::System`](crate::Placement::System). Writes are refused on every device, as those to a read-only import.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// # let (_, path) = tempfile::NamedTempFile::new()?.into_parts();
    /// # std::fs::write(&path, [7u8; 64])?;
    /// use cuda_um::{UnifiedBuffer, UnifiedOptions};
    ///
    /// let file = std::fs::File::open(&path)?;
    /// // SAFETY: no process changes or truncates the file while the buffer lives.
    /// let weights = unsafe { UnifiedBuffer::<f32>::map_file(&device, &file, 16.., UnifiedOptions::default())? };
    /// assert_eq!(weights.len(), 12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// Until the memory is freed, no process writes to the mapped part of the file, or truncates it. An access beyond the end of a truncated
    /// file is no error that a call could return: the CPU gets the signal SIGBUS, and a kernel fails with a sticky error.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a range beyond the end of the file, one that is no multiple of the size of an element, or one whose start
    /// is not aligned for it; [`Error::NotSupported`] for [`Placement::System`](crate::Placement::System) on a device without pageable memory access; [`Error::Io`]; and
    /// for a copy the errors of [`zeroed`](Self::zeroed).
    #[doc(alias = "mmap")]
    #[track_caller]
    pub unsafe fn map_file(
        device: &Device,
        file: &File,
        bytes: impl RangeBounds<u64>,
        options: UnifiedOptions,
    ) -> Result<Self> {
        const { element::assert_element::<T>() };
        let failed = |source| Error::Io {
            call: "map_file",
            done_bytes: 0,
            total_bytes: 0,
            source,
        };
        let size = file.metadata().map_err(failed)?.len();
        let part = part_of_file::<T>(&bytes, size)?;
        let mut range_to_map = MmapOptions::new();
        range_to_map.offset(part.start as u64).len(part.len());
        let mapping = match part.is_empty() {
            // The system maps no empty range.
            true => None,
            // SAFETY: the range is within the file, and the caller promises that it stays there, unchanged.
            false => Some(unsafe { range_to_map.map(file) }.map_err(failed)?),
        };
        let elements: &[T] = mapping.as_deref().map_or(&[], bytemuck::cast_slice);
        let (at, held) = (NonNull::from(elements), Box::new(mapping));
        // SAFETY: the mapping does not move while the buffer owns it. It is never written.
        let buffer = unsafe { Self::of_data(device, at, held, options, Data::File) }?;
        Ok(buffer.read_only())
    }
}

/// The range of bytes of a file of this size, which elements fill.
fn part_of_file<T>(bytes: &impl RangeBounds<u64>, size: u64) -> Result<Range<usize>> {
    // A position beyond the address space is beyond the end of what can be mapped.
    let addressed = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let start = bytes.start_bound().map(|&at| addressed(at));
    let end = bytes.end_bound().map(|&at| addressed(at));
    let (width, alignment) = (size_of::<T>(), align_of::<T>());
    let (part, reason) = match range::check((start, end), addressed(size)) {
        Err(Error::RangeOutOfBounds { start, end, len }) => {
            (start..end, format!("the file has {len} bytes"))
        }
        Err(other) => return Err(other),
        Ok(part) if !part.len().is_multiple_of(width) => {
            (part, format!("elements have {width} bytes"))
        }
        Ok(part) if !part.start.is_multiple_of(alignment) => {
            let reason = "the alignment of the elements";
            (
                part,
                format!("it begins at a multiple of {alignment}, {reason}"),
            )
        }
        Ok(part) => return Ok(part),
    };
    Err(Error::InvalidArgument {
        what: "the range of a file",
        value: format!("{}..{} bytes", part.start, part.end),
        reason,
    })
}
