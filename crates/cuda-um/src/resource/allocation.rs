//! The untyped buffer that all typed ones stand on: address, size, uses in flight, and what happens at its end.
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

/// Memory of any kind, with the work that still uses it.
pub struct RawBuffer {
    source: Source,
    id: u64,
    /// Valid for `bytes` while there is a backing other than `Nothing`; dangling else.
    pointer: NonNull<u8>,
    /// The address for kernels, where they can use it.
    device_pointer: Option<NonNull<u8>>,
    bytes: usize,
    pub(crate) in_flight: InFlight,
    /// Of managed memory.
    pub(crate) cache: Cache,
    label: Option<Label>,
    name: Option<Name>,
}

// SAFETY: the pointer is the buffer's own memory. Nothing here reads or writes through it; the typed buffers do, under the rules of
// `&` and `&mut`, and only for elements that are `Send` and `Sync`.
unsafe impl Send for RawBuffer {}
// SAFETY: as above.
unsafe impl Sync for RawBuffer {}

impl RawBuffer {
    /// A buffer of `bytes` at `pointer`, freed as `backing` says.
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

    /// The first `bytes` of a pool's block, which former work may still use.
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

    /// The same buffer, which kernels reach at `device_pointer`.
    pub(crate) fn mapped_at(mut self, device_pointer: NonNull<u8>) -> Self {
        self.device_pointer = Some(device_pointer);
        self
    }

    /// The same buffer, with what it is called. One that has a label keeps it.
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
                // A pool makes its slabs under a lock.
                None => after_unlock(event),
            }
            observer::made(&self);
        }
        self
    }

    /// Names it.
    pub(crate) fn set_name(&mut self, name: Name) {
        self.name = Some(name);
        observer::made(self);
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_ref().map(Name::as_str)
    }

    /// The slab that it is a part of, if it is of a pool of slabs.
    pub(crate) fn slab(&self) -> Option<SlabId> {
        match &self.source {
            Source::Pool(block) => Some(block.slab()),
            Source::Own(..) => None,
        }
    }

    /// To be called before CUDA takes advice for a range of its addresses: a pool undoes the advice before the memory has another owner.
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

    /// A buffer of no bytes, for which CUDA is never called.
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

    /// All of the memory, as an operation uses it.
    pub(crate) fn part(&self, access: Access) -> Part<'_> {
        self.part_of(0..self.bytes, access)
    }

    /// A range of bytes, as an operation uses it.
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

    /// The addresses for the residency cache.
    pub(crate) fn extent(&self) -> Extent {
        let start = self.pointer.as_ptr().addr();
        let reserved_bytes = match &self.source {
            Source::Pool(block) => block.bytes(),
            Source::Own(..) => self.bytes,
        };
        Extent::new(start..start + self.bytes, start + reserved_bytes)
    }

    /// A range of bytes moves to a place, in the order of a stream.
    pub(crate) fn moved(&self, bytes: &Range<usize>, place: Place, stream: &Arc<StreamInner>) {
        let extent = self.extent();
        let start = extent.addresses.start;
        let range = start + bytes.start..start + bytes.end;
        let is_last = !self.in_flight.is_read_beside(Some(stream));
        self.cache.moved(&extent, range, place, is_last);
    }

    /// The addresses of a range of bytes that was checked.
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

    /// Whether the host may use the address, once nothing else does.
    pub(crate) fn is_host_memory(&self) -> bool {
        self.source.is_host_memory()
    }

    /// Whether it is memory of the buffer's device alone, however it was allocated.
    pub(crate) fn is_device_memory(&self) -> bool {
        !self.is_managed() && !self.is_host_memory()
    }

    /// Whether it is of a pool of the driver's, which no other device can reach: not even one that may reach `cudaMalloc`'s.
    pub(crate) fn is_of_drivers_pool(&self) -> bool {
        matches!(self.source, Source::Own(_, Backing::Ordered(_)))
    }

    /// Whether kernels of any device of the runtime may use it.
    pub(crate) fn is_for_all_devices(&self) -> bool {
        self.is_managed() || matches!(self.source, Source::Own(_, Backing::Nothing))
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.source.kind()
    }

    /// The gate, if host access to this buffer must keep some device idle.
    pub(crate) fn gate(&self) -> Option<&Arc<Gate>> {
        self.device().state().gate().filter(|_| self.is_managed())
    }

    /// Waits for the buffer's own work and frees it. What it owned comes out.
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
                // A device may still use it: leaked.
                (false, waited) => return waited.map(|()| None),
            },
        };
        let backing = backing.into_inner();
        // SAFETY: it is this buffer's memory, all work on it is over, and the buffer is gone.
        let freed = unsafe { backing.release(device.api(), device.ordinal(), self.pointer) };
        crate::telemetry::debug!(buffer = self.id, bytes = self.bytes, "free");
        waited.and(freed)
    }

    /// Never frees it, and lets go of everything else.
    pub(crate) fn leak(mut self) {
        if let Source::Own(_, backing) = &mut self.source {
            drop(Kept::new(std::mem::replace(backing, Backing::Nothing)));
        }
    }

    /// `close` for a pool's block, which goes back to the pool.
    fn close_pooled(mut self, uses: &[Use]) -> Result<()> {
        let (over, waited) = settle(uses);
        if over {
            self.in_flight = InFlight::default();
        } else {
            // A device may still use it: lost to the pool, which never frees its slab.
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
        // A prefetch records by itself where the pages go.
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
        // From here on not freed, and what it owns neither, unless `release` is reached: not even by a panic.
        let backing = match &mut self.source {
            Source::Own(_, backing) => Kept::new(std::mem::replace(backing, Backing::Nothing)),
            Source::Pool(_) => Kept::new(Backing::Nothing),
        };
        let mut waited = Ok(());
        if let Backing::Borrowed = backing.get() {
            // The memory is its owner's as soon as this ends, in whatever way: so it waits, and does that first.
            waited = settle_or_abort(&self.in_flight.before(Access::Write));
        }
        observer::dropped(self);
        let device = match &self.source {
            Source::Own(device, _) => device,
            // Its next owner comes after the uses.
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
            // SAFETY: it is this buffer's memory, these are all its uses, and the buffer is gone.
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
            // Freeing waits for all devices, so it is done here only if they are idle.
            _ => {
                uses.iter().all(|used| used.is_done().unwrap_or(false))
                    && device.state().driver.is_known_idle()
            }
        };
        if free_now {
            let backing = backing.into_inner();
            // SAFETY: it is this buffer's memory, all work on it is over, and the buffer is gone.
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
        // Neither is freed if this is dropped without being called.
        let parts = SendParts(backing, pointer);
        let what = format!("buffer {id} ({} bytes)", self.bytes);
        let release = Box::new(move || {
            let SendParts(backing, pointer) = { parts };
            // SAFETY: it was the buffer's memory; the reclaim thread has waited for all work on it, and the buffer is gone.
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

/// Memory on its way to the reclaim thread.
struct SendParts(Kept, NonNull<u8>);

// SAFETY: nobody else has the memory any more; see `RawBuffer`.
unsafe impl Send for SendParts {}
