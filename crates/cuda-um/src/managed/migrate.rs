//! Migration of buffers between devices, and duplicates on several.

use crate::buffer::device::DeviceBuffer;
use crate::buffer::unified::UnifiedBuffer;
use crate::buffer::view::View;
use crate::context::capture::{self, NO_WAIT};
use crate::context::device::Device;
use crate::context::devices::Devices;
use crate::context::observer::{Started, What};
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::managed::hint::HintOutcome;
use crate::managed::prefetch::{self, Migration, missing, prefetch_part};
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::Allocate;
use crate::resource::pool::default::DefaultMemory;
use smallvec::SmallVec;

impl<T> DeviceBuffer<T> {
    /// Moves the buffer to the memory of another device: allocates there, from the device's default memory
    /// ([`Device::pool`]), and copies the elements. The address changes. Does nothing if the buffer is there.
    ///
    /// The copy takes the link between the devices while a [`PeerAccess`](crate::PeerAccess) lives, and otherwise the memory of the
    /// host. Pinned and registered memory has no such method, because it stays with the host.
    ///
    /// ```
    /// # let sim = cuda_um_sim::Sim::builder().devices(2).build().unwrap();
    /// # let runtime = cuda_um::Runtime::from_table(sim.table())?;
    /// use cuda_um::{DeviceBuffer, Devices};
    ///
    /// let devices = Devices::all(&runtime)?;
    /// let _access = devices.enable_peer_access()?;
    /// let mut data = DeviceBuffer::from_slice(&devices[0], &[1.0f32, 2.0])?;
    /// data.migrate(&devices[1], &devices[1].default_stream()?)?;
    /// assert_eq!(data.device().ordinal(), 1);
    /// assert_eq!(data.to_vec()?, [1.0, 2.0]);
    /// cuda_um::UnifiedBuffer::from_slice(&devices[0], &[1.0f32, 2.0])?.duplicate(&devices)?; // each device gets a copy to read
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// The copy is enqueued on the stream when this returns, after earlier writes of the buffer on any stream; later work on the buffer is
    /// ordered after it. The old memory is freed when its work is done.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], [`Error::RuntimeMismatch`], [`Error::Capture`] for a stream that this thread captures, and the errors of
    /// [`Stream::copy`]. The buffer is then where it was, unchanged.
    #[doc(alias = "cudaMemcpyPeerAsync")]
    pub fn migrate(&mut self, device: &Device, stream: &Stream) -> Result<()> {
        stream.check_runtime(device, "the device")?;
        stream.check_runtime(self.raw.device(), "the buffer")?;
        if self.raw.device().ordinal() == device.ordinal() {
            return Ok(());
        }
        refuse_capture("DeviceBuffer::migrate", &self.raw, stream)?;
        let raw = match self.raw.bytes() {
            0 => Allocation::empty::<T>(device),
            bytes => DefaultMemory::new(device, MemoryKind::Device).allocate(bytes)?,
        };
        let mut moved = Self::of_raw(raw);
        stream.copy(self, &mut moved)?;
        moved.raw.take_label(&self.raw);
        *self = moved;
        Ok(())
    }
}

/// Bytes that are copied at a time, so that both copies of a migration run at the same time.
const PIECE: usize = 32 << 20;

/// The elements of a piece.
fn piece_len<T>() -> usize {
    (PIECE / size_of::<T>().max(1)).max(1)
}

/// Memory on the target of a migration by copies.
struct Way<T> {
    /// The ordinal of the device with the pages.
    from: u32,
    /// The new block.
    block: UnifiedBuffer<T>,
    /// Device memory for two pieces, or for all if that is one, through which the contents pass in turn: two buffers, because work on
    /// parts of one is in order.
    through: SmallVec<[DeviceBuffer<T>; 2]>,
}

impl<T> UnifiedBuffer<T> {
    /// Moves the buffer to a device: by a prefetch, for which the address stays, or, if that is faster, by a copy between the devices
    /// into another block of managed memory, for which it **changes**. The copy is for memory of a [`Pool`](crate::Pool) without advice
    /// that is known to be on another device, while peer access to it is enabled ([`PeerAccess`](crate::PeerAccess)), and if the cost model
    /// says that it is faster ([`CostModel::managed_copy_from_peer`](crate::cost::CostModel::managed_copy_from_peer)). The new block is of
    /// the default pool of the device ([`Device::pool`]). To keep the address, use [`prefetch_on`](Self::prefetch_on).
    ///
    /// # Ordering
    ///
    /// That of a write on the stream: after all earlier work that uses the buffer, and before later work. The contents do not change.
    ///
    /// # Errors
    ///
    /// The errors of [`prefetch_on`](Self::prefetch_on), and of [`Stream::copy`]; [`Error::ReadOnly`] for a read-only import. Memory
    /// that does not migrate, such as mapped pinned memory, has the outcome [`HintOutcome::NotApplied`]. After an error of a copy the
    /// buffer is where it was, unchanged.
    #[doc(alias = "cudaMemPrefetchAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn migrate(&mut self, device: &Device, stream: &Stream) -> Result<HintOutcome> {
        stream.check_runtime(device, "the device")?;
        if let Some(way) = self.way_to(device)? {
            *self = self.moved(way, device, stream)?;
            return Ok(HintOutcome::Applied);
        }
        let moved = self
            .as_view_mut()
            .prefetch_after_reads_on(Location::from(device), stream);
        HintOutcome::of(moved)
    }

    /// Memory for a migration by copies, if it is possible and faster.
    fn way_to(&self, device: &Device) -> Result<Option<Way<T>>> {
        let (raw, to) = (&self.raw, device.ordinal());
        if !raw.is_replaceable() || raw.check_write().is_err() || capture::is_of_this_thread() {
            return Ok(None);
        }
        let bytes = raw.bytes();
        let is_at =
            |ordinal: &u32| missing(raw, &(0..bytes), Location::Device(*ordinal)).is_empty();
        let linked = device.state().driver.peers.linked_to(to);
        let Some((from, link)) = linked.into_iter().find(|(peer, _)| is_at(peer)) else {
            return Ok(None);
        };
        let (cost, len) = (device.cost_model(), bytes as u64);
        if cost.managed_copy_from_peer(link, len) >= cost.prefetch_from_peer(link, len) {
            return Ok(None);
        }
        let allocate = |kind, bytes| DefaultMemory::new(device, kind).allocate(bytes);
        let managed = allocate(MemoryKind::Managed, bytes);
        let pieces = managed.and_then(|managed| {
            let piece = self.len().min(piece_len::<T>()) * size_of::<T>();
            let piece = |_| allocate(MemoryKind::Device, piece).map(DeviceBuffer::of_raw);
            let pieces = self.len().div_ceil(piece_len::<T>()).min(2);
            Ok(Way {
                from,
                block: Self::of_raw(managed),
                through: (0..pieces).map(piece).collect::<Result<_>>()?,
            })
        });
        match pieces {
            Err(Error::OutOfMemory { .. }) => Ok(None),
            pieces => pieces.map(Some),
        }
    }

    /// The contents in another block. The copies between the devices go into device memory, because the driver copies from the memory of one
    /// device into managed memory on another through the host; from there a second stream copies each piece into the block. Each stream is
    /// of the device whose managed memory it accesses, so that the residency cache knows that no page moves.
    fn moved(&self, way: Way<T>, device: &Device, stream: &Stream) -> Result<Self> {
        let Way {
            from,
            mut block,
            mut through,
        } = way;
        let (runtime, to) = (device.runtime(), Location::from(device));
        let on = |device: &Device| {
            let stream = runtime.relay_stream(device.state())?;
            Ok::<_, Error>(Stream::new(runtime.clone(), stream))
        };
        let (out, side) = (on(&runtime.device(from)?)?, on(device)?);
        out.wait(&stream.record()?)?;
        if block.raw.cache.is_away() {
            // Beside the first piece: the old contents of the block are not needed.
            prefetch::migrate(block.as_view(), Migration::Discard, to, &side)?;
        }
        let piece_len = piece_len::<T>();
        for (number, start) in (0..self.len()).step_by(piece_len).enumerate() {
            let end = self.len().min(start + piece_len);
            let piece = &mut through[number % 2];
            out.copy_range(self, start..end, piece, 0)?;
            side.copy_range(piece, ..end - start, &mut block, start)?;
        }
        stream.wait(&side.record()?)?;
        // The copies wrote the pages where they are.
        prefetch::record_move(&block.raw, &(0..block.raw.bytes()), to, &side, true);
        block.raw.take_label(&self.raw);
        Ok(block)
    }

    /// Duplicates the buffer on several devices: sets [`Advice::SetReadMostly`] and prefetches to each device, on the library's stream of
    /// the device. Kernels that read then find the pages in their own memory, where faults would duplicate them one by one; a write on any
    /// processor ends the duplicates of its pages.
    ///
    /// # Ordering
    ///
    /// Waits for work that writes the buffer. The prefetches are enqueued when this returns, and run at the same time as reads; later
    /// writes of the buffer are ordered after them. A kernel on the library's stream of its device
    /// ([`Device::default_stream`]) reads after the prefetch to this device; on another stream it may fault beside it.
    ///
    /// # Errors
    ///
    /// The errors of [`advise`](Self::advise) and [`prefetch_on`](Self::prefetch_on), as far as they apply to any of the devices, and
    /// [`Error::Capture`] for a buffer that this thread captures. The outcome is [`HintOutcome::NotApplied`] for memory that does not
    /// migrate.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn duplicate(&self, devices: &Devices) -> Result<HintOutcome> {
        let view = self.as_view();
        let all = || {
            for device in devices {
                let stream = device.default_stream()?;
                stream.check_runtime(view.device(), "the buffer")?;
                refuse_capture("UnifiedBuffer::duplicate", view.raw, &stream)?;
                device
                    .state()
                    .check_concurrent_access(|| "a duplicate".to_owned())?;
            }
            view.advise(Advice::SetReadMostly)?.require()?;
            devices
                .iter()
                .try_for_each(|device| duplicate_on(view, device))
        };
        HintOutcome::of(all())
    }
}

/// Prefetches to the device as a read, because duplicates of several devices may be made at the same time.
fn duplicate_on<T>(view: View<'_, T>, device: &Device) -> Result<()> {
    let (raw, to) = (view.raw, Location::from(device));
    let stream = device.default_stream()?;
    let started = Started::now(raw.device());
    let missing = missing(raw, &view.bytes(), to);
    if missing.is_empty() {
        return Ok(());
    }
    let what = What::Prefetch { to, elided: false };
    let parts = [view.part(Access::Read)];
    started.enqueue(what, (raw.device(), None), &stream, &parts, |_| {
        let mut parts = missing.iter();
        parts.try_for_each(|part| prefetch_part(raw, part, to, &stream))
    })
}

fn refuse_capture(call: &'static str, raw: &Allocation, stream: &Stream) -> Result<()> {
    match capture::is_active() {
        true => capture::refuse(
            call,
            NO_WAIT,
            stream.inner(),
            &[raw.part_of(0..raw.bytes(), Access::Move)],
        ),
        false => Ok(()),
    }
}
