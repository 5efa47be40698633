//! Allocation, free, registration and queries of memory.

use super::{Code, Cuda, Stream};
use crate::Failure;
use cuda_um_sys as sys;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The function that frees the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Freed {
    Free,
    FreeHost,
    Async(usize),
    /// `munmap`, of a mapping that begins here.
    Unmap(usize),
}

/// System memory begins at multiples of this, the blocks of the driver, and is mapped with as much in addition.
const BLOCK: usize = 2 << 20;

/// Memory that is freed when dropped.
pub(crate) struct Memory<'c> {
    cuda: &'c Cuda<'c>,
    address: usize,
    bytes: usize,
    freed: Freed,
    on_host: bool,
}

/// The result of `cudaPointerGetAttributes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// `cudaMemoryType`: 0 unregistered, 1 host, 2 device, 3 managed.
    pub(crate) kind: u32,
    pub(crate) device: i32,
    pub(crate) device_pointer: usize,
    pub(crate) host_pointer: usize,
}

impl<'c> Cuda<'c> {
    /// `cudaMallocManaged`: code and address.
    pub(crate) fn try_managed(&self, bytes: usize, flags: u32) -> (Code, usize) {
        let mut pointer: *mut c_void = null_mut();
        let code = call!(self.table(), cudaMallocManaged(&mut pointer, bytes, flags));
        (code, pointer as usize)
    }

    /// `cudaMalloc`: code and address.
    pub(crate) fn try_device(&self, bytes: usize) -> (Code, usize) {
        let mut pointer: *mut c_void = null_mut();
        let code = call!(self.table(), cudaMalloc(&mut pointer, bytes));
        (code, pointer as usize)
    }

    /// `cudaHostAlloc`: code and address.
    pub(crate) fn try_pinned(&self, bytes: usize, flags: u32) -> (Code, usize) {
        let mut pointer: *mut c_void = null_mut();
        let code = call!(self.table(), cudaHostAlloc(&mut pointer, bytes, flags));
        (code, pointer as usize)
    }

    fn owned(
        &'c self,
        what: &str,
        (code, address): (Code, usize),
        bytes: usize,
        freed: Freed,
        on_host: bool,
    ) -> Result<Memory<'c>, Failure> {
        self.ok(what, code)?;
        Ok(Memory {
            cuda: self,
            address,
            bytes,
            freed,
            on_host,
        })
    }

    /// Managed memory, attached globally.
    pub(crate) fn managed(&'c self, bytes: usize) -> Result<Memory<'c>, Failure> {
        self.managed_with(bytes, sys::cudaMemAttachGlobal)
    }

    /// Managed memory.
    pub(crate) fn managed_with(&'c self, bytes: usize, flags: u32) -> Result<Memory<'c>, Failure> {
        let got = self.try_managed(bytes, flags);
        self.owned("cudaMallocManaged", got, bytes, Freed::Free, true)
    }

    /// Device memory.
    pub(crate) fn device_memory(&'c self, bytes: usize) -> Result<Memory<'c>, Failure> {
        self.owned(
            "cudaMalloc",
            self.try_device(bytes),
            bytes,
            Freed::Free,
            false,
        )
    }

    /// Pinned memory.
    pub(crate) fn pinned(&'c self, bytes: usize, flags: u32) -> Result<Memory<'c>, Failure> {
        let got = self.try_pinned(bytes, flags);
        self.owned("cudaHostAlloc", got, bytes, Freed::FreeHost, true)
    }

    /// Memory that is not allocated with CUDA: pages of the process that were never touched.
    pub(crate) fn system(&'c self, bytes: usize) -> Result<Memory<'c>, Failure> {
        let (protection, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a fresh mapping disturbs no other memory.
        let start = unsafe { libc::mmap(null_mut(), bytes + BLOCK, protection, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return super::fail(std::io::Error::last_os_error().to_string());
        }
        let start = start as usize;
        let got = (Code::SUCCESS, start.next_multiple_of(BLOCK));
        self.owned("mmap", got, bytes, Freed::Unmap(start), true)
    }

    /// Memory of a pool, freed in the order of a stream.
    pub(super) fn pooled(
        &'c self,
        what: &str,
        got: (Code, usize),
        bytes: usize,
        stream: &Stream<'_>,
        on_host: bool,
    ) -> Result<Memory<'c>, Failure> {
        self.owned(what, got, bytes, Freed::Async(stream.raw()), on_host)
    }

    /// `cudaFree` of an address. A live address must be freed only through [`Memory::free`].
    pub(crate) fn free_address(&self, address: usize) -> Code {
        call!(self.table(), cudaFree(address as *mut c_void))
    }

    /// `cudaFreeHost` of an address. A live address must be freed only through [`Memory::free`].
    pub(crate) fn free_host_address(&self, address: usize) -> Code {
        call!(self.table(), cudaFreeHost(address as *mut c_void))
    }

    /// `cudaHostRegister`
    pub(crate) fn register(&self, host: &mut [u32], flags: u32) -> Code {
        let bytes = size_of_val(host);
        // The memory is borrowed exclusively; the cases unregister it before it is freed.
        call!(
            self.table(),
            cudaHostRegister(host.as_mut_ptr().cast(), bytes, flags)
        )
    }

    /// `cudaHostRegister` of memory that is already pinned.
    pub(crate) fn register_again(&self, memory: &Memory<'_>) -> Code {
        call!(
            self.table(),
            cudaHostRegister(memory.address as *mut c_void, memory.bytes, 0)
        )
    }

    /// `cudaHostUnregister`
    pub(crate) fn unregister(&self, address: usize) -> Code {
        call!(self.table(), cudaHostUnregister(address as *mut c_void))
    }

    /// `cudaHostGetDevicePointer`: code and address.
    pub(crate) fn host_device_pointer(&self, address: usize, flags: u32) -> (Code, usize) {
        let mut pointer: *mut c_void = null_mut();
        let code = call!(
            self.table(),
            cudaHostGetDevicePointer(&mut pointer, address as *mut c_void, flags)
        );
        (code, pointer as usize)
    }

    /// `cudaPointerGetAttributes`
    pub(crate) fn pointer(&self, address: usize) -> Result<Pointer, Failure> {
        let mut attributes = sys::PointerAttributes::default();
        // The place is large enough for every version; the address is not dereferenced.
        let code = call!(
            self.table(),
            cudaPointerGetAttributes(&mut attributes.fields, address as *const c_void)
        );
        self.ok("cudaPointerGetAttributes", code)?;
        let fields = attributes.fields;
        Ok(Pointer {
            kind: fields.type_.0,
            device: fields.device,
            device_pointer: fields.devicePointer as usize,
            host_pointer: fields.hostPointer as usize,
        })
    }

    /// `cuPointerGetAttribute`: the addresses of the allocation that contains an address.
    pub(crate) fn pointer_range(&self, address: usize) -> Result<(Code, Range<usize>), Failure> {
        use sys::CUpointer_attribute_enum as Attribute;
        let get = self.driver()?.cuPointerGetAttribute;
        let (mut start, mut bytes) = (0usize, 0usize);
        let asked = [
            (Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &mut start),
            (Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE, &mut bytes),
        ];
        for (attribute, value) in asked {
            // Both attributes have the size of the place; the address is not dereferenced.
            let code = call!(get((&raw mut *value).cast(), attribute, address as u64));
            if code.0 != 0 {
                return Ok((code, 0..0));
            }
        }
        Ok((Code::SUCCESS, start..start + bytes))
    }

    /// `cudaStreamAttachMemAsync`
    pub(crate) fn attach(&self, stream: &Stream<'_>, memory: &Memory<'_>, flags: u32) -> Code {
        call!(
            self.table(),
            cudaStreamAttachMemAsync(stream.raw() as _, memory.address as *mut c_void, 0, flags)
        )
    }
}

impl Memory<'_> {
    pub(crate) fn address(&self) -> usize {
        self.address
    }

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
        if let (Freed::Unmap(_), Some(declare)) = (self.freed, declare) {
            let start = self.address + range.start * 4;
            cuda_um_testkit::call!(declare(start as *const c_void, range.len() * 4, write));
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

    /// The common value of these elements, read by the host; an error names the first element that differs.
    pub(crate) fn value(&self, range: Range<usize>) -> Result<u32, Failure> {
        let start = self.checked(&range);
        self.declare(&range, false);
        // SAFETY: within live host memory without references to it.
        let at = |index: usize| unsafe { start.add(index).read_volatile() };
        let first = at(0);
        match (1..range.len()).find(|index| at(*index) != first) {
            None => Ok(first),
            Some(index) => super::fail(format!(
                "element {} is {} and element {} is {first}",
                range.start + index,
                at(index),
                range.start
            )),
        }
    }

    /// The value of all elements.
    pub(crate) fn value_all(&self) -> Result<u32, Failure> {
        self.value(0..self.len())
    }

    /// Reads one word in every page of 4 KiB.
    pub(crate) fn read_pages(&self) -> u32 {
        let pages = (0..self.len()).step_by(1024);
        self.declare(&(0..self.len()), false);
        // SAFETY: within live host memory without references to it.
        pages
            .map(|index| unsafe { self.checked(&(index..index + 1)).read_volatile() })
            .fold(0, u32::wrapping_add)
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

    /// An atomic write while a kernel may read.
    pub(super) fn store(&self, index: usize, value: u32) {
        // SAFETY: within bounds; the kernel that reads it reads single words.
        unsafe { super::flag::store(self.checked(&(index..index + 1)), value) };
    }

    /// Frees it now.
    pub(crate) fn free(self) -> Code {
        let code = self.give_back();
        std::mem::forget(self);
        code
    }

    /// `cudaFree`, also for memory of a pool.
    pub(crate) fn free_now(self) -> Code {
        let code = self.cuda.free_address(self.address);
        std::mem::forget(self);
        code
    }

    /// `cudaFreeAsync` in the order of a stream other than that of the allocation.
    pub(crate) fn free_on(self, stream: &Stream<'_>) -> Code {
        let code = self.cuda.free_async_address(self.address, stream.raw());
        std::mem::forget(self);
        code
    }

    fn give_back(&self) -> Code {
        match self.freed {
            Freed::Free => self.cuda.free_address(self.address),
            Freed::FreeHost => self.cuda.free_host_address(self.address),
            Freed::Async(stream) => self.cuda.free_async_address(self.address, stream),
            Freed::Unmap(start) => {
                // SAFETY: the mapping of `system`, which nothing uses: the cases wait for their work.
                unsafe { libc::munmap(start as *mut c_void, self.bytes + BLOCK) };
                Code::SUCCESS
            }
        }
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let code = self.give_back();
        if code != Code::SUCCESS {
            self.cuda
                .complain(format!("memory is not freed: {}", self.cuda.text(code)));
        }
    }
}
