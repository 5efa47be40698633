//! Memory and pools.

use super::{At, Called, Calls, Cuda, Place, Pool, Span, Stream, call, ok};
use cuda_um_sys as sys;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// System memory begins at multiples of this, the blocks of the driver, and is mapped with as much in addition.
const BLOCK: usize = 2 << 20;

/// Memory that is freed when dropped.
pub(crate) struct Memory<'c> {
    cuda: &'c Cuda<'c>,
    address: usize,
    bytes: usize,
    free: Option<Box<dyn FnOnce() -> Called + 'c>>,
    pub(super) on_host: bool,
    /// The simulator does not see the host's accesses.
    is_system: bool,
}

impl At for &Memory<'_> {
    fn at(self) -> usize {
        self.address
    }
}

impl<'c> Cuda<'c> {
    fn memory(
        &'c self,
        (address, bytes): (usize, usize),
        on_host: bool,
        free: impl FnOnce() -> Called + 'c,
    ) -> Memory<'c> {
        Memory {
            cuda: self,
            address,
            bytes,
            free: Some(Box::new(free)),
            on_host,
            is_system: false,
        }
    }

    /// Managed memory, attached globally.
    pub(crate) fn managed(&'c self, bytes: usize) -> Memory<'c> {
        self.managed_with(bytes, sys::cudaMemAttachGlobal)
    }

    /// Managed memory.
    pub(crate) fn managed_with(&'c self, bytes: usize, flags: u32) -> Memory<'c> {
        let at = ok(self.malloc_managed(bytes, flags));
        self.memory((at, bytes), true, move || self.free(at))
    }

    /// Device memory; or the refusal.
    pub(crate) fn try_device(&'c self, bytes: usize) -> Called<Memory<'c>> {
        let at = self.malloc(bytes)?;
        Ok(self.memory((at, bytes), false, move || self.free(at)))
    }

    /// Device memory.
    pub(crate) fn device(&'c self, bytes: usize) -> Memory<'c> {
        ok(self.try_device(bytes))
    }

    /// Pinned memory.
    pub(crate) fn pinned(&'c self, bytes: usize, flags: u32) -> Memory<'c> {
        let at = ok(self.host_alloc(bytes, flags));
        self.memory((at, bytes), true, move || self.free_host(at))
    }

    /// Memory that is not allocated with CUDA: pages of the process that were never touched.
    pub(crate) fn system(&'c self, bytes: usize) -> Memory<'c> {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a fresh mapping disturbs no other memory.
        let start = unsafe { libc::mmap(null_mut(), bytes + BLOCK, access, kind, -1, 0) };
        assert!(
            start != libc::MAP_FAILED,
            "{}",
            std::io::Error::last_os_error()
        );
        let at = (start as usize).next_multiple_of(BLOCK);
        let free = move || {
            // SAFETY: the mapping of above, which nothing uses: the cases wait for their work.
            unsafe { libc::munmap(start, bytes + BLOCK) };
            Ok(())
        };
        let mut memory = self.memory((at, bytes), true, free);
        memory.is_system = true;
        memory
    }

    /// Memory of the device's pool.
    pub(crate) fn malloc_async(&'c self, bytes: usize, stream: &Stream<'_>) -> Memory<'c> {
        let (at, stream) = (ok(self.malloc_in_order(bytes, stream)), stream.at());
        self.memory((at, bytes), false, move || self.free_async(at, stream))
    }

    /// Memory of a pool; `on_host` is true for a pool of managed memory.
    pub(crate) fn malloc_from(
        &'c self,
        pool: &Pool<'_>,
        bytes: usize,
        stream: &Stream<'_>,
        on_host: bool,
    ) -> Memory<'c> {
        let (at, stream) = (ok(self.malloc_of_pool(bytes, pool, stream)), stream.at());
        self.memory((at, bytes), on_host, move || self.free_async(at, stream))
    }

    /// `cudaMemPoolCreate` of a kind of memory (`cudaMemAllocationType`: 1 device memory, 2 managed), on a device that may not exist.
    pub(crate) fn try_pool(&'c self, kind: u32, device: i32) -> Called<Pool<'c>> {
        let properties = sys::cudaMemPoolProps {
            allocType: sys::cudaMemAllocationType(kind),
            location: Place::device(device).to_sys(),
            ..Default::default()
        };
        Ok(Pool::owned(self, self.pool_create(&properties)?))
    }

    /// A pool of the memory of device 0.
    pub(crate) fn pool(&'c self) -> Pool<'c> {
        ok(self.try_pool(1, 0))
    }

    /// `cuPointerGetAttribute`: the addresses of the allocation that contains an address.
    pub(crate) fn pointer_range(&self, address: usize) -> Called<Range<usize>> {
        use sys::CUpointer_attribute_enum as Which;
        let start =
            self.pointer_attribute(Which::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address)?;
        let bytes = self.pointer_attribute(Which::CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)?;
        Ok(start..start + bytes)
    }

    /// `cudaMemcpy`, of as many bytes as the shorter range has.
    pub(crate) fn copy(&self, to: impl Span, from: impl Span, kind: u32) -> Called {
        let (to, from) = (to.span(), from.span());
        self.memcpy(to.start, from.start, to.len().min(from.len()), kind)
    }

    /// `cudaMemcpyAsync`, of as many bytes as the shorter range has. The caller waits for it.
    pub(crate) fn copy_async(
        &self,
        to: impl Span,
        from: impl Span,
        kind: u32,
        stream: &Stream<'_>,
    ) -> Called {
        let (to, from) = (to.span(), from.span());
        let bytes = to.len().min(from.len());
        self.memcpy_async(to.start, from.start, bytes, kind, stream)
    }

    /// The contents of device memory (or any other), copied to the host.
    pub(crate) fn contents(&self, memory: &Memory<'_>) -> Vec<u32> {
        let mut out = vec![0; memory.len()];
        ok(self.copy(&mut out, memory, 4));
        out
    }

    /// The value of all elements of device memory.
    pub(crate) fn device_value(&self, memory: &Memory<'_>) -> u32 {
        let contents = self.contents(memory);
        let other = contents.iter().find(|value| **value != contents[0]);
        assert!(
            other.is_none(),
            "elements are {} and {other:?}",
            contents[0]
        );
        contents[0]
    }
}

impl Pool<'_> {
    /// `cudaMemPoolSetAccess` for one device: read-write access, or none.
    pub(crate) fn set_access(&self, device: i32, read_write: bool) -> Called {
        let access = sys::cudaMemAccessDesc {
            location: Place::device(device).to_sys(),
            flags: sys::cudaMemAccessFlags(if read_write { 3 } else { 0 }),
        };
        self.cuda.pool_set_access(self, &access)
    }

    /// `cudaMemPoolGetAttribute`
    pub(crate) fn get(&self, which: sys::cudaMemPoolAttr) -> u64 {
        ok(self.cuda.pool_get(self, which))
    }

    super::forms! {
        set(which: sys::cudaMemPoolAttr, value: u64): pool_set;
    }
}

impl Memory<'_> {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.bytes / 4
    }

    fn checked(&self, range: &Range<usize>) -> *mut u32 {
        assert!(self.on_host, "the host cannot reach device memory");
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "out of bounds"
        );
        (self.address as *mut u32).wrapping_add(range.start)
    }

    /// Tells the simulator of a host access that it cannot see. A GPU sees each.
    fn declare(&self, range: &Range<usize>, write: bool) {
        let declare = self.cuda.table().declared_host_access();
        if let (true, Some(declare)) = (self.is_system, declare) {
            let start = self.address + range.start * 4;
            call!(declare(start as *const _, range.len() * 4, write));
        }
    }

    /// Writes elements from the host.
    pub(crate) fn fill(&self, range: Range<usize>, value: u32) {
        let start = self.checked(&range);
        self.declare(&range, true);
        for index in 0..range.len() {
            // SAFETY: within live host memory without references to it. Volatile, because the host must really access it.
            unsafe { start.add(index).write_volatile(value) };
        }
    }

    /// Writes all elements.
    pub(crate) fn fill_all(&self, value: u32) {
        self.fill(0..self.len(), value);
    }

    /// The memory, filled from the host.
    pub(crate) fn filled(self, value: u32) -> Self {
        self.fill_all(value);
        self
    }

    /// The memory, set to 0 by the device.
    pub(crate) fn zeroed(self) -> Self {
        ok(self.cuda.memset(&self, 0, self.bytes));
        ok(self.cuda.synchronize());
        self
    }

    /// The common value of these elements, read by the host; a failure names the first element that differs.
    pub(crate) fn value(&self, range: Range<usize>) -> u32 {
        let start = self.checked(&range);
        self.declare(&range, false);
        // SAFETY: within live host memory without references to it.
        let at = |index: usize| unsafe { start.add(index).read_volatile() };
        let first = at(0);
        if let Some(index) = (1..range.len()).find(|index| at(*index) != first) {
            let (here, start) = (range.start + index, range.start);
            panic!(
                "element {here} is {} and element {start} is {first}",
                at(index)
            );
        }
        first
    }

    /// The value of all elements.
    pub(crate) fn value_all(&self) -> u32 {
        self.value(0..self.len())
    }

    /// Reads one word in every page of 4 KiB.
    pub(crate) fn read_pages(&self) {
        self.declare(&(0..self.len()), false);
        for index in (0..self.len()).step_by(1024) {
            // SAFETY: within live host memory without references to it.
            unsafe { self.checked(&(index..index + 1)).read_volatile() };
        }
    }

    /// One word, for atomic accesses while other sides use it.
    pub(super) fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a live, aligned word for as long as this is borrowed; every side accesses it atomically.
        unsafe { AtomicU32::from_ptr(self.checked(&(index..index + 1))) }
    }

    /// Polls a word until it has a value; false if it does not in five seconds.
    pub(crate) fn becomes(&self, index: usize, value: u32) -> bool {
        let start = Instant::now();
        while self.word(index).load(Ordering::Acquire) != value {
            if start.elapsed() > Duration::from_secs(5) {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    /// Frees it now.
    pub(crate) fn free(mut self) -> Called {
        self.give_back()
    }

    /// `cudaFree`, also for memory of a pool.
    pub(crate) fn free_now(mut self) -> Called {
        self.free = None;
        self.cuda.free(self.address)
    }

    /// `cudaFreeAsync` in the order of a stream other than that of the allocation.
    pub(crate) fn free_on(mut self, stream: &Stream<'_>) -> Called {
        self.free = None;
        self.cuda.free_async(self.address, stream)
    }

    fn give_back(&mut self) -> Called {
        self.free.take().map_or(Ok(()), |free| free())
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        if let Err(code) = self.give_back() {
            self.cuda.late.borrow_mut().push(code.to_string());
        }
    }
}
