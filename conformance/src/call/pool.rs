//! Driver pools and stream-ordered allocation.

use super::{Code, Cuda, Memory, Stream};
use crate::Failure;
use cuda_um_sys as sys;
use std::ffi::c_void;
use std::ptr::null_mut;

/// A pool that is destroyed when dropped, or a device's default pool.
pub(crate) struct Pool<'c> {
    cuda: &'c Cuda<'c>,
    raw: usize,
    owned: bool,
}

/// `cudaMemAllocationTypePinned`
const PINNED: u32 = 1;
/// `cudaMemAllocationTypeManaged`
const MANAGED: u32 = 2;

fn properties(kind: u32, device: i32) -> sys::cudaMemPoolProps {
    sys::cudaMemPoolProps {
        allocType: sys::cudaMemAllocationType(kind),
        location: sys::cudaMemLocation {
            type_: sys::cudaMemLocationType(1),
            id: device,
        },
        ..Default::default()
    }
}

impl<'c> Cuda<'c> {
    /// `cudaMemPoolCreate`: code and handle.
    fn try_pool(&self, kind: u32, device: i32) -> (Code, usize) {
        let mut pool = null_mut();
        let properties = properties(kind, device);
        let code = call!(self.table(), cudaMemPoolCreate(&mut pool, &properties));
        (code, pool as usize)
    }

    /// A pool of device memory of a device that may not exist; the code if it is refused.
    pub(crate) fn try_device_pool(&'c self, device: i32) -> Result<Pool<'c>, Code> {
        self.keep(self.try_pool(PINNED, device))
    }

    /// A pool of managed memory; the code if it is refused.
    pub(crate) fn try_managed_pool(&'c self, device: i32) -> Result<Pool<'c>, Code> {
        self.keep(self.try_pool(MANAGED, device))
    }

    fn keep(&'c self, (code, raw): (Code, usize)) -> Result<Pool<'c>, Code> {
        match code {
            Code::SUCCESS => Ok(Pool {
                cuda: self,
                raw,
                owned: true,
            }),
            code => Err(code),
        }
    }

    /// A pool of the memory of device 0.
    pub(crate) fn pool(&'c self) -> Result<Pool<'c>, Failure> {
        self.try_device_pool(0)
            .map_err(|code| Failure(format!("cudaMemPoolCreate: {}", self.text(code))))
    }

    /// The default pool of a device, or its current one: `cudaDeviceGetDefaultMemPool`, `cudaDeviceGetMemPool`.
    pub(crate) fn device_pool(&'c self, default: bool) -> Result<Pool<'c>, Failure> {
        let mut pool = null_mut();
        let table = self.table();
        let get = if default {
            table.cudaDeviceGetDefaultMemPool
        } else {
            table.cudaDeviceGetMemPool
        };
        let code = call!(get(&mut pool, 0));
        self.ok("the device's pool", code)?;
        Ok(Pool {
            cuda: self,
            raw: pool as usize,
            owned: false,
        })
    }

    /// `cudaDeviceSetMemPool` of device 0.
    pub(crate) fn set_device_pool(&self, pool: &Pool<'_>) -> Code {
        call!(self.table(), cudaDeviceSetMemPool(0, pool.raw as _))
    }

    /// `cudaMallocAsync`: code and address.
    pub(crate) fn try_async(&self, bytes: usize, stream: &Stream<'_>) -> (Code, usize) {
        let mut pointer: *mut c_void = null_mut();
        let code = call!(
            self.table(),
            cudaMallocAsync(&mut pointer, bytes, stream.raw() as _)
        );
        (code, pointer as usize)
    }

    /// Memory of the device's pool.
    pub(crate) fn malloc_async(
        &'c self,
        bytes: usize,
        stream: &Stream<'_>,
    ) -> Result<Memory<'c>, Failure> {
        let got = self.try_async(bytes, stream);
        self.pooled("cudaMallocAsync", got, bytes, stream, false)
    }

    /// `cudaMallocFromPoolAsync`: code and address.
    pub(crate) fn try_from_pool(
        &self,
        pool: &Pool<'_>,
        bytes: usize,
        stream: &Stream<'_>,
    ) -> (Code, usize) {
        let mut pointer: *mut c_void = null_mut();
        let code = call!(
            self.table(),
            cudaMallocFromPoolAsync(&mut pointer, bytes, pool.raw as _, stream.raw() as _)
        );
        (code, pointer as usize)
    }

    /// Memory of a pool; `on_host` is true for a pool of managed memory.
    pub(crate) fn malloc_from_pool(
        &'c self,
        pool: &Pool<'_>,
        bytes: usize,
        stream: &Stream<'_>,
        on_host: bool,
    ) -> Result<Memory<'c>, Failure> {
        let got = self.try_from_pool(pool, bytes, stream);
        self.pooled("cudaMallocFromPoolAsync", got, bytes, stream, on_host)
    }

    /// `cudaFreeAsync` of an address. A live address must be freed only through [`Memory::free`].
    pub(crate) fn free_async_address(&self, address: usize, stream: usize) -> Code {
        call!(
            self.table(),
            cudaFreeAsync(address as *mut c_void, stream as _)
        )
    }
}

impl Pool<'_> {
    pub(crate) fn raw(&self) -> usize {
        self.raw
    }

    /// `cudaMemPoolSetAccess` for one device: read-write access, or none.
    pub(crate) fn set_access(&self, device: i32, read_write: bool) -> Code {
        let description = sys::cudaMemAccessDesc {
            location: properties(PINNED, device).location,
            flags: sys::cudaMemAccessFlags(if read_write { 3 } else { 0 }),
        };
        call!(
            self.cuda.table(),
            cudaMemPoolSetAccess(self.raw as _, &description, 1)
        )
    }

    /// `cudaMemPoolTrimTo`
    pub(crate) fn trim(&self, keep: usize) -> Code {
        call!(self.cuda.table(), cudaMemPoolTrimTo(self.raw as _, keep))
    }

    /// `cudaMemPoolGetAttribute` of 64 bits.
    pub(crate) fn get(&self, attribute: sys::cudaMemPoolAttr) -> Result<u64, Failure> {
        let mut value = u64::MAX - 1;
        let code = call!(
            self.cuda.table(),
            cudaMemPoolGetAttribute(self.raw as _, attribute, (&raw mut value).cast())
        );
        self.cuda.ok("cudaMemPoolGetAttribute", code)?;
        Ok(value)
    }

    /// `cudaMemPoolSetAttribute` of 64 bits.
    pub(crate) fn set(&self, attribute: sys::cudaMemPoolAttr, mut value: u64) -> Code {
        call!(
            self.cuda.table(),
            cudaMemPoolSetAttribute(self.raw as _, attribute, (&raw mut value).cast())
        )
    }

    /// `cudaMemPoolDestroy`
    pub(crate) fn destroy(self) -> Code {
        let code = self.give_back();
        std::mem::forget(self);
        code
    }

    /// `cudaMemPoolDestroy` of a pool that the case does not own: refused.
    pub(crate) fn destroy_default(&self) -> Code {
        assert!(!self.owned);
        self.give_back()
    }

    fn give_back(&self) -> Code {
        // The pool lives, and is destroyed once; a device's default pool is refused.
        call!(self.cuda.table(), cudaMemPoolDestroy(self.raw as _))
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        if self.owned && self.give_back() != Code::SUCCESS {
            self.cuda.complain("a pool is not destroyed".to_owned());
        }
    }
}
