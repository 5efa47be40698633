//! The untyped memory under all typed buffers: its address, its size, its tracked uses, and its release.

pub(crate) mod parts;
mod release;
mod tracked;

use crate::context::device::{Device, DeviceState};
use crate::context::exclusion::Gate;
use crate::context::observer;
use crate::context::op::What;
use crate::context::stream::StreamInner;
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::label::{Label, Title};
use crate::resource::block::{Address, Block};
use crate::resource::existing::Existing;
use crate::resource::id;
use crate::resource::kind::MemoryKind;
use crate::resource::location::{Before, Whereabouts, owns_blocks};
use crate::resource::owner::{Owner, Traits};
use crate::resource::placement::Chosen;
use crate::resource::pool::default;
use cuda_um_sys::cudaMemoryAdvise;
use std::any::TypeId;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// The pages that the driver moves together at a fault: larger memory shares at most its ends with others, and so few faults cost less than a
/// prefetch (measured: docs/results/h100-cuda-13.0/graphs.md).
const MIGRATED: usize = 64 << 10;

/// Memory of any kind, with its tracked uses. It returns to its owner when this is dropped.
pub struct Allocation {
    owner: Arc<dyn Owner>,
    /// `None` for the slabs of pools, which the device's runtime has.
    device: Option<Device>,
    /// Taken once `is_owned` is false. Then only `owner`, `id` and the traits are used.
    block: ManuallyDrop<Box<Block>>,
    /// Becomes false before observers are told of the free: if an observer panics, the memory is leaked.
    is_owned: bool,
    // The next three are known from the owner and the block, and are kept here because each launch reads them.
    kind: MemoryKind,
    pub(crate) home: usize,
    /// True if the whole buffer owns its blocks of 2 MiB, so that its place can be known.
    pub(crate) is_located: bool,
    /// True for a read-only import, which refuses all writes.
    is_read_only: bool,
    /// True for it, and for pinned memory without an address for kernels.
    is_special: bool,
    id: u64,
    pub(crate) pages: Whereabouts,
    pub(crate) chosen: Option<Chosen>,
    label: Option<Label>,
    name: Option<Arc<str>>,
}

impl Deref for Allocation {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        &self.block
    }
}

impl DerefMut for Allocation {
    fn deref_mut(&mut self) -> &mut Block {
        &mut self.block
    }
}

impl Allocation {
    pub(crate) fn new(owner: Arc<dyn Owner>, address: Address, bytes: usize) -> Self {
        Self::of_block(owner, None, Block::new(address, bytes))
    }

    #[inline]
    pub(crate) fn of_block(
        owner: Arc<dyn Owner>,
        device: Option<Device>,
        block: Box<Block>,
    ) -> Self {
        let traits = owner.traits();
        let (kind, home) = (traits.kind, traits.device.identity());
        let pages = Whereabouts::new(Location::Device(traits.device.ordinal), block.is_away);
        let reserved_end = block.at() + block.reserved_bytes;
        Self {
            kind,
            home,
            is_located: kind == MemoryKind::Managed
                && owns_blocks(&block.addresses(), reserved_end),
            is_read_only: false,
            is_special: kind == MemoryKind::Pinned && block.address.device.is_none(),
            id: id::next(),
            pages,
            chosen: None,
            label: None,
            name: None,
            owner,
            device,
            block: ManuallyDrop::new(block),
            is_owned: true,
        }
    }

    pub(crate) fn of(mut self, device: &Device) -> Self {
        self.device = Some(device.for_buffer());
        self
    }

    /// Allocates from the resource of this memory, or of the default of a kind, if it is of the caller or of another library.
    pub(crate) fn allocate_again(&self, kind: MemoryKind, bytes: usize) -> Result<Self> {
        let again = Arc::clone(&self.owner).allocate_again(self.device(), bytes);
        again.unwrap_or_else(|| default::allocate(self.device(), kind, bytes))
    }

    /// Refuses a read-only import. Must be called before any CUDA call of an operation that writes.
    #[inline]
    pub(crate) fn check_write(&self) -> Result<()> {
        match self.is_read_only {
            false => Ok(()),
            true => Err(Error::ReadOnly {
                what: self.title().to_string(),
            }),
        }
    }

    /// Marks a read-only import, or a part of one.
    pub(crate) fn refuse_writes(&mut self) {
        (self.is_read_only, self.is_special) = (true, true);
    }

    pub(crate) fn empty<T>(device: &Device) -> Self {
        let traits = Traits {
            free_waits: false,
            ..Traits::of(device.state(), MemoryKind::Pinned, "empty")
        };
        let owner = Existing::new(traits, |_, _| Ok(None));
        let nowhere = NonNull::<T>::dangling().cast();
        Self::new(Arc::new(owner), Address::of_host(nowhere), 0).of(device)
    }

    pub(crate) fn kind_in_words(&self) -> String {
        match &self.chosen {
            Some(chosen) => chosen.in_words(self.device()).to_string(),
            None => self.kind().to_string(),
        }
    }

    pub(crate) fn set_label(&mut self, label: Label) {
        if self.label.is_none() {
            self.label = Some(label);
            self.tell(What::Allocate);
        }
    }

    pub(crate) fn set_name(&mut self, name: Arc<str>) {
        self.name = Some(name);
        self.tell(What::Name);
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    #[inline]
    pub(crate) fn traits(&self) -> &Traits {
        self.owner.traits()
    }

    /// Must be called before CUDA receives advice for a range of the addresses: a pool undoes the advice before the memory has another
    /// owner.
    pub(crate) fn track_advice(
        &self,
        addresses: &Range<*mut u8>,
        advice: cudaMemoryAdvise,
        location: Location,
    ) {
        if let Some(pages) = &self.traits().pages {
            let range = addresses.start.addr()..addresses.end.addr();
            pages.note(range, advice, location);
        }
    }

    #[inline]
    pub(crate) fn device(&self) -> &Device {
        self.device.as_ref().expect("a buffer has a device")
    }

    #[inline]
    fn state(&self) -> &Arc<DeviceState> {
        &self.traits().device
    }

    #[inline]
    pub(crate) fn part_of(&self, bytes: Range<usize>, access: Access) -> Part<'_> {
        Part {
            memory: self,
            uses: &self.in_flight,
            home: self.home,
            is_special: self.is_special,
            is_located: self.is_located,
            access: match access {
                Access::Write if bytes.len() < self.bytes => Access::WritePart,
                access => access,
            },
            bytes,
        }
    }

    /// Tells observers of the memory, unless it is a slab: a pool gets and frees those under its lock.
    #[inline]
    fn tell(&self, what: What<'_>) {
        let is_slab = || self.label.is_some_and(|label| label.site.is_none());
        if observer::is_heard() && !is_slab() {
            observer::tell_once(what, &self.part_of(0..self.bytes(), Access::Move));
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Valid for `bytes`; dangling if there are none.
    #[inline]
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.address.host
    }

    /// Records that a range of bytes moves to a place, in stream order, since `before`.
    pub(crate) fn moved(
        &self,
        bytes: &Range<usize>,
        place: Location,
        (stream, before): (&Arc<StreamInner>, Before),
    ) {
        let is_last = !self.in_flight.is_read_beside(Some(stream));
        let is_all = bytes.len() == self.bytes();
        self.pages
            .moved(before, place, (is_all, self.is_located, is_last));
        self.left_device_for(place);
    }

    #[inline]
    pub(crate) fn is_known_at(&self, place: Location) -> bool {
        self.pages.is_at(place) && !self.may_be_evicted_from(place)
    }

    /// Returns true if pages may not be on the device where the memory was allocated.
    #[inline]
    pub(crate) fn may_be_away(&self) -> bool {
        let state = self.device().state();
        self.pages.is_away() || state.driver.evicts(state.ordinal)
    }

    /// The driver evicts pages to the host.
    #[inline]
    fn may_be_evicted_from(&self, place: Location) -> bool {
        matches!(place, Location::Device(ordinal) if self.state().driver.evicts(ordinal))
    }

    /// Tells the neighbours that pages are, or may be, at a place.
    pub(crate) fn left_device_for(&self, place: Location) {
        if self.is_located {
            return;
        }
        let Traits { device, pages, .. } = self.traits();
        if let Some(pages) = pages
            && place != Location::Device(device.ordinal)
        {
            pages.count_departure();
        }
    }

    /// A number that grows when pages of the memory may have left the device with those of neighbours.
    pub(crate) fn departures(&self) -> u64 {
        let pages = self.traits().pages.as_ref();
        let pages = pages.filter(|_| self.reserved_bytes < MIGRATED);
        pages.map_or(0, |pages| pages.departures())
    }

    pub(crate) fn address_range(&self, bytes: &Range<usize>) -> Range<*mut u8> {
        let start = self.pointer().as_ptr();
        start.wrapping_add(bytes.start)..start.wrapping_add(bytes.end)
    }

    /// The address for kernels; `None` if they cannot access the memory.
    #[inline]
    pub(crate) fn device_pointer(&self) -> Option<NonNull<u8>> {
        self.address.device
    }

    #[inline]
    pub(crate) fn kind(&self) -> MemoryKind {
        self.kind
    }

    #[inline]
    pub(crate) fn is_managed(&self) -> bool {
        self.kind() == MemoryKind::Managed
    }

    /// Returns true if pages migrate: by faults, prefetches and advice.
    #[inline]
    pub(crate) fn migrates(&self) -> bool {
        matches!(self.kind(), MemoryKind::Managed | MemoryKind::System)
    }

    /// Returns true if the host may use the address when no other work does, and copies by itself. It also does for no bytes.
    #[inline]
    pub(crate) fn is_host_memory(&self) -> bool {
        matches!(self.kind(), MemoryKind::Pinned | MemoryKind::System)
    }

    pub(crate) fn is_device_memory(&self) -> bool {
        self.kind() == MemoryKind::Device
    }

    /// Returns true for the memory of an object of this type, which [`close`](Self::close) returns.
    pub(crate) fn holds<T: 'static>(&self) -> bool {
        self.traits().held == Some(TypeId::of::<T>())
    }

    /// The gate, if host access to this memory must keep a device idle.
    #[inline]
    pub(crate) fn gate(&self) -> Option<&Arc<Gate>> {
        self.state().gate().filter(|_| self.is_managed())
    }

    /// Returns true if the memory is managed and nothing that uses it can be enqueued now, because host guards live and a device has no
    /// concurrent managed access. Then the host accesses it.
    #[inline]
    pub(crate) fn is_left_to_host(&self) -> bool {
        self.is_managed() && self.device().state().is_beside_guards()
    }

    pub(crate) fn title(&self) -> Title {
        Title {
            buffer: self.id,
            bytes: self.bytes(),
            name: self.name.clone(),
            label: self.label,
        }
    }
}
