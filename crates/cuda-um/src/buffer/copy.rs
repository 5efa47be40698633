//! Copies between host slices and buffers, and between buffers.
#![allow(unsafe_code, reason = "passes addresses of slices and buffers to CUDA")]

use crate::DeviceCopy;
use crate::buffer::array::{ReadArg, WriteArg};
use crate::buffer::host_vec;
use crate::buffer::transfer;
use crate::buffer::transfer::{Direction, Staged};
use crate::buffer::view::{View, ViewMut};
use crate::context::capture::BY_HOST;
use crate::context::op::{InCapture, Op, What};
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::process_end::Calls;
use crate::range;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use std::ops::RangeBounds;

/// Copies `source` to a view of as many elements. The caller may reuse `source` when this returns; later uses of the buffer are ordered after the
/// copy.
pub(super) fn from_host<T: DeviceCopy>(target: ViewMut<'_, T>, source: &[T]) -> Result<()> {
    range::same_length("copy_from_host", target.len(), source.len())?;
    target.raw.check_write()?;
    let (target, source) = (target.into_view().into_bytes(), source.as_ptr());
    // SAFETY: the lengths are equal; both are borrowed, the target exclusively; the source is only read.
    unsafe { exchange(target, Direction::ToDevice, source.cast_mut().cast(), true) }
}

/// Copies a view to `target`, which has as many elements. The copy is complete when this returns.
pub(super) fn to_host<T: DeviceCopy>(source: View<'_, T>, target: &mut [T]) -> Result<()> {
    range::same_length("copy_to_host", source.len(), target.len())?;
    let (source, target) = (source.into_bytes(), target.as_mut_ptr().cast());
    // SAFETY: the lengths are equal; both are borrowed, the target exclusively; any bytes are elements.
    unsafe { exchange(source, Direction::ToHost, target, true) }
}

/// Copies between a view and as many bytes of the host: by CUDA, or by the host, if the memory is of the host or is left to it.
///
/// # Safety
///
/// The memory of the host is valid, and both are borrowed as the direction requires: the target exclusively.
pub(super) unsafe fn exchange(
    view: View<'_, u8>,
    direction: Direction,
    host: *mut u8,
    is_told: bool,
) -> Result<()> {
    if view.is_empty() {
        return Ok(());
    }
    let (call, access) = direction.names();
    let part = [view.part(access)];
    let op = Op::with_host(view.device(), &part);
    let is_beside_guards = op.device.state().is_beside_guards();
    let copy = Staged::new(direction, host, &view);
    // Its captures are few, because the way past observers passes them by their addresses.
    let work = |calls: &Calls| {
        let raw = view.raw;
        if !(raw.is_host_memory() || is_beside_guards && raw.is_managed()) {
            // SAFETY: the caller's promise.
            let copied = unsafe {
                match is_beside_guards {
                    false => transfer::with_host(&op, calls, &copy),
                    true => through_vector(&op, calls, &copy),
                }
            };
            match copied {
                Ok(()) => return Ok(()),
                // A guard began meanwhile.
                Err(Error::Busy { .. }) if raw.is_managed() => {}
                Err(error) => return Err(error),
            }
        }
        let (call, access) = copy.direction.names();
        let _closed = raw.wait_for_host(&view.bytes(), access, call)?;
        let (to, from) = copy.direction.ends(copy.device, copy.host);
        // SAFETY: the caller's promise; no device uses the view against the access now.
        unsafe { transfer::copy_on_host(op.device.state(), from, to, copy.bytes) };
        Ok(())
    };
    op.run((call, is_told), work)
}

/// Copies through a vector: the host's memory may be that of several guards, which the host may not access while CUDA copies it.
///
/// # Safety
///
/// As for [`exchange`].
#[cold]
unsafe fn through_vector(op: &Op<'_>, calls: &Calls, copy: &Staged) -> Result<()> {
    let mut own: Vec<u8> = host_vec::zeroed(copy.direction.names().0, copy.bytes)?;
    // SAFETY: the caller's promise; the vector has as many bytes, and nothing else uses it.
    unsafe {
        if copy.direction == Direction::ToDevice {
            own.as_mut_ptr()
                .copy_from_nonoverlapping(copy.host, copy.bytes);
        }
        let own_copy = Staged {
            host: own.as_mut_ptr(),
            ..*copy
        };
        transfer::with_host(op, calls, &own_copy)?;
        if copy.direction == Direction::ToHost {
            copy.host.copy_from_nonoverlapping(own.as_ptr(), copy.bytes);
        }
    }
    Ok(())
}

impl Stream {
    /// Copies all elements from one buffer or view to another. The two buffers may be of different kinds, or be disjoint views of one
    /// buffer ([`ViewMut::split_at`]).
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{DeviceBuffer, PinnedBuffer};
    ///
    /// let stream = device.create_stream()?;
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
    /// The copy is enqueued on this stream when this returns, after earlier uses of both buffers on any stream. Host guards and later work
    /// on the buffers wait for it. A copy from system memory first waits for work that writes it, because CUDA may read such memory at the
    /// call; a copy to system memory may be complete when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch); [`Error::RuntimeMismatch`](crate::Error::RuntimeMismatch);
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch) if the stream's device cannot reach the memory: memory of a stream-ordered
    /// [`Pool`](crate::Pool) is accessible only to its own device, but a copy between device memory of two devices may use a
    /// stream of either; [`Error::Busy`](crate::Error::Busy) for managed memory on a device without concurrent managed access while host guards live
    /// ([`NonConcurrentAccess`](crate::NonConcurrentAccess)); and the
    /// errors of `cudaMemcpyAsync` and `cudaMemcpyPeerAsync`.
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy<'a, T, S, D>(&self, source: &'a S, target: &'a mut D) -> Result<()>
    where
        &'a S: ReadArg<T>,
        &'a mut D: WriteArg<T>,
    {
        let (source, target) = (source.into_view()?, target.into_view_mut()?);
        range::same_length("copy", target.len(), source.len())?;
        self.copy_views(source, target)
    }

    /// Does the same as [`copy`](Self::copy) for the elements in `range`, to the target's elements from `offset` on.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and the errors of [`copy`](Self::copy).
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_range<'a, T, S, D>(
        &self,
        source: &'a S,
        range: impl RangeBounds<usize>,
        target: &'a mut D,
        offset: usize,
    ) -> Result<()>
    where
        &'a S: ReadArg<T>,
        &'a mut D: WriteArg<T>,
    {
        let source = source.into_view()?.slice(range)?;
        let target = target.into_view_mut()?;
        self.copy_views(source, target.slice_at(offset, source.len())?)
    }

    fn copy_views<T>(&self, source: View<'_, T>, target: ViewMut<'_, T>) -> Result<()> {
        self.check_runtime(source.device(), "the buffer")?;
        self.check_runtime(target.device(), "the buffer")?;
        target.raw.check_write()?;
        if source.is_empty() {
            return Ok(());
        }
        let ordinal = self.inner().ordinal();
        let peers = peers(ordinal, source.raw, target.raw)?;
        let bytes = source.size_bytes();
        let parts = [source.part(Access::Read), target.part(Access::Write)];
        let is_system = |raw: &Allocation| raw.kind() == MemoryKind::System;
        let rule = match is_system(source.raw) || is_system(target.raw) {
            true => InCapture::Refuses(BY_HOST),
            false => InCapture::Records,
        };
        let op = Op::new(What::Copy, source.device(), &parts).in_capture(rule);
        if is_system(source.raw) {
            self.admit(&op)?;
            // CUDA may read pageable memory at the call, before earlier work of the stream has written it.
            for used in source.raw.in_flight.before(Access::Read) {
                used.wait()?;
            }
        }
        self.submit(&op, |on| {
            let (to, from) = (target.address(), source.address());
            let api = self.inner().api();
            // SAFETY: the views have equal lengths, and are disjoint, because one is borrowed exclusively; their buffers track this use, so
            // they are neither freed nor used by the host before it is complete.
            unsafe {
                match peers {
                    None => {
                        let kind = CopyKind::ByAddress;
                        api.memcpy_async(ordinal, to, from, bytes, kind, on)
                    }
                    Some([source, target]) => {
                        let (to, from) = ((to, target), (from.cast_const(), source));
                        api.memcpy_peer_async(ordinal, to, from, bytes, on)
                    }
                }
            }
        })
    }
}

/// The devices of source and target, if a copy on a stream of the device `on` must name them to the driver.
///
/// Peer access does not extend to memory of the driver's pools: by default only the pool's own device may use it. `cudaMemPoolSetAccess`
/// works only for peers, and some drivers are reported to lose data in peer copies after it (github.com/JuliaGPU/CUDA.jl/pull/3112).
/// `cudaMemcpyPeerAsync` needs neither.
fn peers(on: u32, source: &Allocation, target: &Allocation) -> Result<Option<[u32; 2]>> {
    let both = [source, target];
    let devices = both.map(|raw| raw.device().ordinal());
    let is_between_devices = devices[0] != devices[1]
        && both.iter().all(|raw| raw.is_device_memory())
        && both.iter().any(|raw| !raw.traits().is_open_to_peers);
    if is_between_devices && devices.contains(&on) {
        return Ok(Some(devices));
    }
    check_reach(on, both).map(|()| None)
}

/// Refuses memory that work on a stream of the device `on` cannot reach.
pub(super) fn check_reach(on: u32, memory: [&Allocation; 2]) -> Result<()> {
    let out_of_reach =
        |raw: &&Allocation| !raw.traits().is_open_to_peers && raw.device().ordinal() != on;
    match memory.into_iter().find(out_of_reach) {
        None => Ok(()),
        Some(pooled) => Err(Error::DeviceMismatch {
            what: "the stream",
            expected: pooled.device().ordinal(),
            found: on,
        }),
    }
}
