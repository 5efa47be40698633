//! Migration of buffers between devices, and duplicates on several.

use crate::buffer::device::DeviceBuffer;
use crate::buffer::relay::PIECE;
use crate::buffer::unified::UnifiedBuffer;
use crate::context::capture::{self, NO_WAIT};
use crate::context::device::Device;
use crate::context::devices::Devices;
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::fork;
use crate::managed::hint::HintOutcome;
use crate::managed::prefetch::{self, Migration, check_places, missing};
use crate::resource::kind::MemoryKind;
use crate::resource::pool::default::DefaultMemory;

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
        let part = self.as_view().part(Access::Move);
        capture::refuse("DeviceBuffer::migrate", NO_WAIT, stream.inner(), &[part])?;
        let there = DefaultMemory::new(device, MemoryKind::Device);
        let mut moved = Self::allocate_in(&there, self.len())?;
        stream.copy(self, &mut moved)?;
        moved.raw.take_label(&self.raw);
        *self = moved;
        Ok(())
    }
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
        fork::check("migrate")?;
        if let Some(moved) = self.copied_to(device, stream)? {
            *self = moved;
            return Ok(HintOutcome::Applied);
        }
        let (view, to) = (self.as_view(), Location::from(device));
        HintOutcome::of(prefetch::migrate(view, Migration::Exclusive, to, stream))
    }

    /// The device with the pages, if a copy from there into another block is possible and faster than a prefetch.
    fn peer_to_copy_from(&self, device: &Device) -> Option<u32> {
        let (raw, bytes) = (&self.raw, self.raw.bytes());
        if !raw.is_replaceable() || raw.check_write().is_err() || capture::is_of_this_thread() {
            return None;
        }
        let peers = &device.state().driver.peers;
        let linked = peers.lock().linked_to(device.ordinal());
        let is_at = |ordinal| missing(raw, &(0..bytes), Location::Device(ordinal)).is_empty();
        let (peer, link) = linked.into_iter().find(|(peer, _)| is_at(*peer))?;
        let (cost, bytes) = (device.cost_model(), bytes as u64);
        let is_faster =
            cost.managed_copy_from_peer(link, bytes) < cost.prefetch_from_peer(link, bytes);
        is_faster.then_some(peer)
    }

    /// The contents in another block; `None` if a prefetch is better, or the device has no memory. The copies between the devices go into
    /// device memory, because the driver copies from the memory of one device into managed memory on another through the host; from there a
    /// second stream copies each piece into the block. Each stream is of the device whose managed memory it accesses, so that the residency
    /// cache knows that no page moves.
    fn copied_to(&self, device: &Device, stream: &Stream) -> Result<Option<Self>> {
        let Some(peer) = self.peer_to_copy_from(device) else {
            return Ok(None);
        };
        // Several pieces, so that the copies of both streams run at the same time.
        let piece_len = (PIECE / size_of::<T>().max(1)).max(1);
        let memory = || {
            let [managed, through] = [MemoryKind::Managed, MemoryKind::Device]
                .map(|kind| DefaultMemory::new(device, kind));
            let block = Self::allocate_in(&managed, self.len())?;
            // Two buffers in turn, because work on parts of one is in order.
            let pieces = (0..self.len().div_ceil(piece_len).min(2))
                .map(|_| DeviceBuffer::<T>::allocate_in(&through, self.len().min(piece_len)));
            Ok((block, pieces.collect::<Result<Vec<_>>>()?))
        };
        let (mut block, mut pieces) = match memory() {
            Err(Error::OutOfMemory { .. }) => return Ok(None),
            memory => memory?,
        };
        let (runtime, to) = (device.runtime(), Location::from(device));
        let on = |device: &Device| runtime.relay_stream(device.state());
        let streams = [on(&runtime.device(peer)?)?, on(device)?];
        let [out, side] = streams.map(|stream| Stream::new(runtime.clone(), stream));
        out.wait(&stream.record()?)?;
        if block.raw.cache.is_away() {
            // Beside the first piece: the old contents of the block are not needed.
            prefetch::migrate(block.as_view(), Migration::Discard, to, &side)?;
        }
        for (number, start) in (0..self.len()).step_by(piece_len).enumerate() {
            let end = self.len().min(start + piece_len);
            let piece = &mut pieces[number % 2];
            out.copy_range(self, start..end, piece, 0)?;
            side.copy_range(piece, ..end - start, &mut block, start)?;
        }
        stream.wait(&side.record()?)?;
        // The copies wrote the pages where they are.
        prefetch::record_move(&block.raw, &(0..block.raw.bytes()), to, &side, true);
        block.raw.take_label(&self.raw);
        Ok(Some(block))
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
            let streams = devices.iter().map(Device::default_stream);
            let streams = streams.collect::<Result<Vec<_>>>()?;
            let each = || std::iter::zip(devices.iter().map(Location::from), &streams);
            for (to, stream) in each() {
                check_places(view.device(), to, stream, "the buffer")?;
                let part = view.part(Access::Move);
                capture::refuse("UnifiedBuffer::duplicate", NO_WAIT, stream.inner(), &[part])?;
            }
            view.advise(Advice::SetReadMostly)?.require()?;
            each().try_for_each(|(to, on)| prefetch::migrate(view, Migration::Duplicate, to, on))
        };
        HintOutcome::of(all())
    }
}
