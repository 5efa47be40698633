//! Copies between host slices and buffers, and between buffers.
#![allow(unsafe_code, reason = "gives CUDA the addresses of slices and buffers")]

use crate::buffer::any::Memory;
use crate::buffer::transfer;
use crate::buffer::transfer::{Direction, Host, Staged};
use crate::context::enqueue::enqueue;
use crate::context::observer::{Started, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::range;
use crate::resource::allocation::RawBuffer;
use std::ops::RangeBounds;

/// Copies `source` to the buffer's byte `offset` and on. The source is free when it returns, and what uses the buffer comes after.
pub(crate) fn from_host(target: &mut RawBuffer, offset: usize, source: &[u8]) -> Result<()> {
    if source.is_empty() {
        return Ok(());
    }
    let started = Started::now(target.device());
    let _span = crate::telemetry::span!("copy", to = target.id(), bytes = source.len());
    put(target, offset, source)?;
    let part = target.part_of(offset..offset + source.len(), Access::Write);
    started.done(What::Copy, target.device(), None, [part]);
    Ok(())
}

pub(crate) fn put(target: &mut RawBuffer, offset: usize, source: &[u8]) -> Result<()> {
    if target.is_host_memory() {
        let _closed = target.wait_for_host(Access::Write)?;
        let to = target.pointer().as_ptr().wrapping_add(offset);
        // SAFETY: the range was checked, no device uses the buffer any more, and `source` is not part of an exclusive borrow.
        unsafe {
            transfer::copy_on_host(target.device().state(), source.as_ptr(), to, source.len())
        };
        return Ok(());
    }
    let staged = Staged {
        direction: Direction::ToDevice,
        host: Host::Memory(source.as_ptr().cast_mut()),
        device: target.pointer().as_ptr().wrapping_add(offset),
        bytes: source.len(),
        unit_bytes: 1,
        kind: kind(target, CopyKind::HostToDevice),
    };
    // SAFETY: the range was checked; both are borrowed, the target exclusively; the source is only read.
    unsafe { with_host(target, Access::Write, staged) }.map(drop)
}

/// Copies from the buffer's byte `offset` on to `target`. Done when it returns.
pub(crate) fn to_host(source: &RawBuffer, offset: usize, target: &mut [u8]) -> Result<()> {
    if target.is_empty() {
        return Ok(());
    }
    let started = Started::now(source.device());
    let _span = crate::telemetry::span!("copy", from = source.id(), bytes = target.len());
    get(source, offset, target)?;
    let part = source.part_of(offset..offset + target.len(), Access::Read);
    started.done(What::Copy, source.device(), None, [part]);
    Ok(())
}

fn get(source: &RawBuffer, offset: usize, target: &mut [u8]) -> Result<()> {
    if source.is_host_memory() {
        let _closed = source.wait_for_host(Access::Read)?;
        let from = source.pointer().as_ptr().wrapping_add(offset);
        // SAFETY: the range was checked, no device writes the buffer, and an exclusive borrow is not part of it.
        unsafe {
            transfer::copy_on_host(
                source.device().state(),
                from,
                target.as_mut_ptr(),
                target.len(),
            )
        };
        return Ok(());
    }
    let staged = Staged {
        direction: Direction::ToHost,
        host: Host::Memory(target.as_mut_ptr()),
        device: source.pointer().as_ptr().wrapping_add(offset),
        bytes: target.len(),
        unit_bytes: 1,
        kind: kind(source, CopyKind::DeviceToHost),
    };
    // SAFETY: the range was checked; both are borrowed, the target exclusively.
    unsafe { with_host(source, Access::Read, staged) }.map(drop)
}

/// CUDA finds out where managed memory is.
pub(crate) fn kind(buffer: &RawBuffer, explicit: CopyKind) -> CopyKind {
    match buffer.is_managed() {
        true => CopyKind::ByAddress,
        false => explicit,
    }
}

/// Copies between a buffer and the host, after earlier uses of the buffer. Nothing uses the host's memory any more when it returns; a copy
/// to the device may still go on, as a use of the buffer.
///
/// `None`: the bytes are to be produced, and cannot be on the way; nothing was done.
///
/// # Safety
///
/// Both sides are valid for the bytes, and borrowed as the direction needs.
pub(crate) unsafe fn with_host(
    buffer: &RawBuffer,
    access: Access,
    copy: Staged<'_>,
) -> Result<Option<()>> {
    let device = buffer.device();
    let stream = device.default_stream()?;
    let (mut in_use, mut copied) = (HostInUse(None), Some(()));
    let used = std::iter::once(buffer.part(access));
    let enqueued = enqueue(&stream, used, || {
        if copy.direction == Direction::ToHost {
            in_use.0 = Some(stream.inner());
        }
        // SAFETY: the caller's promise; what the stream was told to wait for comes before.
        if let Some(outcome) = unsafe { transfer::copy(device.state(), stream.inner(), copy) } {
            return outcome;
        }
        let Host::Memory(host) = copy.host else {
            copied = None;
            return Ok(());
        };
        let (to, from) = match copy.direction {
            Direction::ToDevice => (copy.device, host),
            Direction::ToHost => (host, copy.device),
        };
        in_use.0 = Some(stream.inner());
        // SAFETY: the caller's promise; the stream is waited for below, also if this panics.
        unsafe {
            device.api().memcpy_async(
                device.ordinal(),
                to,
                from,
                copy.bytes,
                copy.kind,
                stream.as_raw(),
            )
        }
    });
    // Whatever went wrong: the memory is the caller's, and nothing may use it any more.
    enqueued.and(in_use.finish())?;
    Ok(copied)
}

/// The stream that may use the caller's memory, if one does. It is waited for, at the latest when this is dropped.
struct HostInUse<'a>(Option<&'a StreamInner>);

impl HostInUse<'_> {
    fn finish(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), StreamInner::finish)
    }
}

impl Drop for HostInUse<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            // On the way of a panic: there is no way to tell an error.
            let _ = stream.finish();
        }
    }
}

impl Stream {
    /// Copies all elements from one buffer to another, of any two kinds.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{DeviceBuffer, PinnedBuffer};
    ///
    /// let stream = device.stream()?;
    /// let source = PinnedBuffer::from_slice(&device, &[1.0f32, 2.0])?;
    /// let mut on_device = DeviceBuffer::zeroed(&device, 2)?;
    /// stream.copy(&source, &mut on_device)?;
    /// # let mut back = [0.0; 2];
    /// # on_device.copy_to_host(&mut back)?;
    /// # assert_eq!(back, [1.0, 2.0]);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// Enqueued when this returns, after earlier uses of both on any stream. Host guards and later work wait for it.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch); [`Error::RuntimeMismatch`](crate::Error::RuntimeMismatch);
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch) for memory of a stream-ordered [`DevicePool`](crate::DevicePool), which other
    /// devices cannot reach, and a stream of another device (a copy between device memory of two devices may be on a stream of either);
    /// [`Error::Busy`](crate::Error::Busy) on a device without concurrent managed access while host guards live; and what
    /// `cudaMemcpyAsync` or `cudaMemcpyPeerAsync` reports.
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy<T>(&self, source: &impl Memory<T>, target: &mut impl Memory<T>) -> Result<()> {
        range::same_length("copy", target.element_count(), source.element_count())?;
        self.copy_range(source, .., target, 0)
    }

    /// Copies the elements in `range` to `offset` and on of another buffer, of any two kinds.
    ///
    /// # Ordering
    ///
    /// As for [`copy`](Self::copy).
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and as for [`copy`](Self::copy).
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_range<T>(
        &self,
        source: &impl Memory<T>,
        range: impl RangeBounds<usize>,
        target: &mut impl Memory<T>,
        offset: usize,
    ) -> Result<()> {
        self.check_runtime(source.raw().device(), "the buffer")?;
        self.check_runtime(target.raw().device(), "the buffer")?;
        let from = range::check(range, source.element_count())?;
        let to = range::to_bytes::<T>(&range::check_at(
            offset,
            from.len(),
            target.element_count(),
        )?);
        let from = range::to_bytes::<T>(&from);
        if from.is_empty() {
            return Ok(());
        }
        let ordinal = self.inner().ordinal();
        let peers = peers(ordinal, source.raw(), target.raw())?;
        let started = Started::now(source.raw().device());
        let (source_id, target_id) = (source.raw().id(), target.raw().id());
        let _span =
            crate::telemetry::span!("copy", from = source_id, to = target_id, bytes = from.len());
        let (source, target) = (source.raw(), target.raw());
        let parts = [
            source.part_of(from.clone(), Access::Read),
            target.part_of(to.clone(), Access::Write),
        ];
        let device = (source.device(), None);
        started.enqueue(What::Copy, device, self, parts.into_iter(), || {
            // SAFETY: both ranges were checked; the buffers are two, for one is borrowed exclusively; they note this use, so
            // neither is freed or used by the host before it is done.
            unsafe {
                let (to, from_at) = (
                    target.pointer().as_ptr().add(to.start),
                    source.pointer().as_ptr().add(from.start),
                );
                let (api, bytes, stream) = (self.inner().api(), from.len(), self.as_raw());
                match peers {
                    None => {
                        let kind = CopyKind::ByAddress;
                        api.memcpy_async(ordinal, to, from_at, bytes, kind, stream)
                    }
                    Some([source, target]) => {
                        let (to, from) = ((to, target), (from_at.cast_const(), source));
                        api.memcpy_peer_async(ordinal, to, from, bytes, stream)
                    }
                }
            }
        })
    }
}

/// The devices of source and target, if the driver must be told them for a copy on a stream of the device `on`.
///
/// Memory of a pool of the driver's is for its own device alone: peer access does not extend to it. Access to the pool
/// (`cudaMemPoolSetAccess`) could be given to peers alone, and there are reports of drivers whose peer copies then lose data
/// (github.com/JuliaGPU/CUDA.jl/pull/3112). `cudaMemcpyPeerAsync` needs neither.
fn peers(on: u32, source: &RawBuffer, target: &RawBuffer) -> Result<Option<[u32; 2]>> {
    let both = [source, target];
    let devices = both.map(|raw| raw.device().ordinal());
    let out_of_reach = |raw: &&RawBuffer| raw.is_of_drivers_pool() && raw.device().ordinal() != on;
    let is_between_devices = devices[0] != devices[1]
        && both.iter().all(|raw| raw.is_device_memory())
        && both.iter().any(|raw| raw.is_of_drivers_pool());
    if is_between_devices && devices.contains(&on) {
        return Ok(Some(devices));
    }
    match both.into_iter().find(out_of_reach) {
        None => Ok(None),
        Some(pooled) => Err(Error::DeviceMismatch {
            what: "the stream",
            expected: pooled.device().ordinal(),
            found: on,
        }),
    }
}
