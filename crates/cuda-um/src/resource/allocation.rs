//! The untyped buffer under all typed ones: its address, its size, its tracked uses, and its release.
#![allow(unsafe_code, reason = "owns memory by its address")]

use crate::context::device::Device;
use crate::context::drain::{settle, settle_or_abort};
use crate::context::exclusion::Gate;
use crate::context::observer;
use crate::context::reclaim::Deferred;
use crate::context::stream::StreamInner;
use crate::context::tracked::{Description, Part, SlabId, Tracked};
use crate::context::tracker::{Access, InFlight, Use};
use crate::driver::location::Location;
use crate::error::Result;
use crate::label::{Label, Name};
use crate::resource::backing::{Backing, Kept, Source};
use crate::resource::cache::extent::Extent;
use crate::resource::cache::{By, Cache, Place};
use crate::resource::id;
use crate::resource::pool::block::PoolBlock;
use crate::resource::pool::driver::Freed;
use crate::sync::after_unlock;
use cuda_um_sys::cudaMemoryAdvise;
use std::any::Any;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory of any kind, with its tracked uses.
pub struct RawBuffer {
    source: Source,
    id: u64,
    /// Valid for `bytes` unless the backing is `Nothing`; otherwise dangling.
    pointer: NonNull<u8>,
    /// The address for kernels; `None` if they cannot access the memory.
    device_pointer: Option<NonNull<u8>>,
    bytes: usize,
    pub(crate) in_flight: InFlight,
    /// The residency cache, for managed memory.
    pub(crate) cache: Cache,
    label: Option<Label>,
    name: Option<Name>,
}

// SAFETY: the pointer is the buffer's own memory. This type does not read or write through it. The typed buffers do, under the rules of
// `&` and `&mut`, and only for elements that are `Send` and `Sync`.
unsafe impl Send for RawBuffer {}
// SAFETY: as above.
unsafe impl Sync for RawBuffer {}

impl RawBuffer {
    /// Makes a buffer of `bytes` at `pointer`, which `backing` frees.
    pub(crate) fn new(
        device: &Device,
        (pointer, backing): (NonNull<u8>, Backing),
        device_pointer: Option<NonNull<u8>>,
        bytes: usize,
    ) -> Self {
        let source = Source::Own(device.clone(), backing);
        let in_flight = InFlight::default();
        Self::from_source(source, pointer, device_pointer, bytes, in_flight)
    }

    /// Makes a buffer of the first `bytes` of a pool's block, which work of its former owners may still use.
    pub(crate) fn pooled(
        block: PoolBlock,
        (pointer, device_pointer): (NonNull<u8>, Option<NonNull<u8>>),
        bytes: usize,
        in_flight: InFlight,
    ) -> Self {
        let source = Source::Pool(block);
        Self::from_source(source, pointer, device_pointer, bytes, in_flight)
    }

    fn from_source(
        source: Source,
        pointer: NonNull<u8>,
        device_pointer: Option<NonNull<u8>>,
        bytes: usize,
        in_flight: InFlight,
    ) -> Self {
        Self {
            source,
            id: id::next(),
            pointer,
            device_pointer,
            bytes,
            in_flight,
            cache: Cache::default(),
            label: None,
            name: None,
        }
    }

    /// Sets the address at which kernels access the buffer.
    pub(crate) fn mapped_at(mut self, device_pointer: NonNull<u8>) -> Self {
        self.device_pointer = Some(device_pointer);
        self
    }

    /// Sets the label, unless the buffer has one.
    pub(crate) fn labelled(mut self, label: Label) -> Self {
        if self.label.is_none() {
            self.label = Some(label);
            let (buffer, bytes, device, kind) =
                (self.id, self.bytes, self.device().ordinal(), self.kind());
            let event = move || {
                crate::telemetry::debug!(
                    buffer,
                    bytes,
                    device,
                    kind,
                    what = label.describe(bytes),
                    site = label.site.map(tracing::field::display),
                    "allocate"
                );
            };
            match label.site {
                Some(_) => event(),
                // A pool allocates its slabs under a lock.
                None => after_unlock(event),
            }
            observer::made(&self);
        }
        self
    }

    /// Sets the name.
    pub(crate) fn set_name(&mut self, name: Name) {
        self.name = Some(name);
        observer::made(self);
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_ref().map(Name::as_str)
    }

    /// The slab that contains the buffer, if a pool of slabs owns the memory.
    pub(crate) fn slab(&self) -> Option<SlabId> {
        match &self.source {
            Source::Pool(block) => Some(block.slab()),
            Source::Own(..) => None,
        }
    }

    /// Must be called before CUDA receives advice for a range of the buffer's addresses: a pool undoes the advice before the memory has
    /// another owner.
    pub(crate) fn note_advice(
        &self,
        addresses: &Range<*mut u8>,
        advice: cudaMemoryAdvise,
        location: Location,
    ) {
        if let Source::Pool(block) = &self.source {
            let range = addresses.start.addr()..addresses.end.addr();
            block.note_advice(range, advice, location);
        }
    }

    /// Makes a buffer of no bytes, for which no CUDA function is called.
    pub(crate) fn empty<T>(device: &Device) -> Self {
        Self::new(
            device,
            (NonNull::<T>::dangling().cast(), Backing::Nothing),
            None,
            0,
        )
    }

    pub(crate) fn device(&self) -> &Device {
        self.source.device()
    }

    /// The whole memory as a part of an operation.
    pub(crate) fn part(&self, access: Access) -> Part<'_> {
        self.part_of(0..self.bytes, access)
    }

    /// A range of bytes as a part of an operation.
    pub(crate) fn part_of(&self, bytes: Range<usize>, access: Access) -> Part<'_> {
        Part {
            memory: self,
            bytes,
            access,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// The addresses, for the residency cache.
    pub(crate) fn extent(&self) -> Extent {
        let start = self.pointer.as_ptr().addr();
        let reserved_bytes = match &self.source {
            Source::Pool(block) => block.bytes(),
            Source::Own(..) => self.bytes,
        };
        Extent::new(start..start + self.bytes, start + reserved_bytes)
    }

    /// Updates the residency cache for a range of bytes that moves to a place, in stream order.
    pub(crate) fn moved(&self, bytes: &Range<usize>, place: Place, stream: &Arc<StreamInner>) {
        let extent = self.extent();
        let start = extent.addresses.start;
        let range = start + bytes.start..start + bytes.end;
        let is_last = !self.in_flight.is_read_beside(Some(stream));
        self.cache.moved(&extent, range, place, is_last);
    }

    /// The addresses of a checked range of bytes.
    pub(crate) fn address_range(&self, bytes: &Range<usize>) -> Range<*mut u8> {
        let start = self.pointer.as_ptr();
        start.wrapping_add(bytes.start)..start.wrapping_add(bytes.end)
    }

    pub(crate) fn device_pointer(&self) -> Option<NonNull<u8>> {
        self.device_pointer
    }

    pub(crate) fn is_managed(&self) -> bool {
        self.source.is_managed()
    }

    /// Returns true if the host may use the address when no other work does.
    pub(crate) fn is_host_memory(&self) -> bool {
        self.source.is_host_memory()
    }

    /// Returns true for memory of the buffer's device only, from any allocation function.
    pub(crate) fn is_device_memory(&self) -> bool {
        !self.is_managed() && !self.is_host_memory()
    }

    /// Returns true for memory of a driver pool, which no other device can access, even a device that can access memory from `cudaMalloc`.
    pub(crate) fn is_of_drivers_pool(&self) -> bool {
        matches!(self.source, Source::Own(_, Backing::Ordered(_)))
    }

    /// Returns true if kernels of any device of the runtime may use the memory.
    pub(crate) fn is_for_all_devices(&self) -> bool {
        self.is_managed() || matches!(self.source, Source::Own(_, Backing::Nothing))
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.source.kind()
    }

    /// The gate, if host access to this buffer must keep a device idle.
    pub(crate) fn gate(&self) -> Option<&Arc<Gate>> {
        self.device().state().gate().filter(|_| self.is_managed())
    }

    /// Waits for the uses of this buffer, frees it, and returns the object that it owned.
    pub(crate) fn close(mut self) -> Result<Option<Box<dyn Any + Send + Sync>>> {
        self.device().api().origin.check("close")?;
        let uses = self.in_flight.before(Access::Write);
        let Source::Own(device, backing) = &mut self.source else {
            return self.close_pooled(&uses).map(|()| None);
        };
        let device = device.clone();
        let backing = Kept::new(std::mem::replace(backing, Backing::Nothing));
        let waited = match backing.get() {
            Backing::Borrowed => settle_or_abort(&uses),
            _ => match settle(&uses) {
                (true, waited) => waited,
                // A device may still use the memory, so it is leaked.
                (false, waited) => return waited.map(|()| None),
            },
        };
        let backing = backing.into_inner();
        // SAFETY: the memory belongs to this buffer, all work on it is over, and the buffer is not used again.
        let freed = unsafe { backing.release(device.api(), device.ordinal(), self.pointer) };
        crate::telemetry::debug!(buffer = self.id, bytes = self.bytes, "free");
        waited.and(freed)
    }

    /// Leaks the memory, and releases everything else.
    pub(crate) fn leak(mut self) {
        if let Source::Own(_, backing) = &mut self.source {
            drop(Kept::new(std::mem::replace(backing, Backing::Nothing)));
        }
    }

    /// `close` for a pool's block, which returns to the pool.
    fn close_pooled(mut self, uses: &[Use]) -> Result<()> {
        let (over, waited) = settle(uses);
        if over {
            self.in_flight = InFlight::default();
        } else {
            // A device may still use the block. The pool loses it and never frees its slab.
            self.source = Source::Own(self.device().clone(), Backing::Nothing);
        }
        waited
    }
}

impl Tracked for RawBuffer {
    fn device(&self) -> &Device {
        self.device()
    }

    fn uses(&self) -> &InFlight {
        &self.in_flight
    }

    fn used_by(&self, stream: &Arc<StreamInner>, access: Access) {
        // A prefetch records the destination of the pages itself.
        if let Some(by) = By::of(Place::Device(stream.ordinal()), access)
            && self.is_managed()
        {
            self.cache.touched(by);
        }
    }

    fn describe(&self) -> Description<'_> {
        Description {
            id: self.id,
            address: self.pointer.as_ptr().addr(),
            bytes: self.bytes,
            kind: self.kind(),
            is_managed: self.is_managed(),
            name: self.name(),
            label: self.label.as_ref(),
            slab: self.slab(),
        }
    }
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        if self.device().api().origin.is_inherited() {
            return;
        }
        // From here on, neither the memory nor the object that it owns is freed unless `release` is reached, even if a panic unwinds.
        let backing = match &mut self.source {
            Source::Own(_, backing) => Kept::new(std::mem::replace(backing, Backing::Nothing)),
            Source::Pool(_) => Kept::new(Backing::Nothing),
        };
        let mut waited = Ok(());
        if let Backing::Borrowed = backing.get() {
            // The owner may use the memory as soon as this drop returns or unwinds, so drain its uses first.
            waited = settle_or_abort(&self.in_flight.before(Access::Write));
        }
        observer::dropped(self);
        let device = match &self.source {
            Source::Own(device, _) => device,
            // The next owner's work is ordered after the uses.
            Source::Pool(block) => {
                let in_flight = self.in_flight.take();
                block.give_back((self.pointer, self.device_pointer), in_flight);
                crate::telemetry::debug!(buffer = self.id, bytes = self.bytes, "back to the pool");
                return;
            }
        };
        let (id, pointer, ordinal) = (self.id, self.pointer, device.ordinal());
        let uses = self.in_flight.before(Access::Write);
        if let Backing::Ordered(block) = backing.get() {
            // SAFETY: the memory belongs to this buffer, these are all its uses, and the buffer is not used again.
            match unsafe { block.free_in_order(pointer, &uses) } {
                Freed::InOrder => {
                    drop(backing.into_inner());
                    crate::telemetry::debug!(buffer = id, bytes = self.bytes, "free in order");
                    return;
                }
                Freed::Failed(error) => {
                    crate::telemetry::warn!(buffer = id, %error, "a buffer could not be freed");
                    return;
                }
                Freed::NotOrdered(error) => {
                    crate::telemetry::debug!(buffer = id, %error, "not freed in order");
                }
            }
        }
        let free_now = match backing.get() {
            Backing::Nothing => return,
            Backing::Borrowed => true,
            // Freeing waits for all devices, so it happens here only if they are idle.
            _ => {
                uses.iter().all(|used| used.is_done().unwrap_or(false))
                    && device.state().driver.is_known_idle()
            }
        };
        if free_now {
            let backing = backing.into_inner();
            // SAFETY: the memory belongs to this buffer, all work on it is over, and the buffer is not used again.
            let freed = unsafe { backing.release(device.api(), ordinal, pointer) };
            // A pool drops its slabs under a lock.
            let (bytes, outcome) = (self.bytes, waited.and(freed));
            after_unlock(move || {
                crate::telemetry::debug!(buffer = id, bytes, "free");
                if let Err(error) = outcome {
                    crate::telemetry::warn!(buffer = id, %error, "a buffer could not be freed");
                }
            });
            return;
        }
        let api = Arc::clone(device.api());
        // If `release` is dropped without being called, neither the memory nor its owned object is freed.
        let parts = SendParts(backing, pointer);
        let what = format!("buffer {id} ({} bytes)", self.bytes);
        let release = Box::new(move || {
            let SendParts(backing, pointer) = { parts };
            // SAFETY: the memory belonged to the buffer, which is dropped; the reclaim thread has waited for all work on it.
            unsafe { backing.into_inner().release(&api, ordinal, pointer) }.map(drop)
        });
        device.reclaim().defer(Deferred {
            uses,
            what,
            release,
        });
        let bytes = self.bytes;
        after_unlock(move || {
            crate::telemetry::debug!(buffer = id, bytes, "free later");
        });
    }
}

/// Memory that is sent to the reclaim thread.
struct SendParts(Kept, NonNull<u8>);

// SAFETY: no other code has the memory; see `RawBuffer`.
unsafe impl Send for SendParts {}
