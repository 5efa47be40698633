//! A pool of any kind, and a buffer of any type.

use cuda_um::{
    DeviceBuffer, MemoryKind, PinnedBuffer, Pool, Result, Stream, UnifiedBuffer, ViewMut,
    resource::{DriverPool, MemoryResource, PoolStats},
};

#[derive(Clone, Debug)]
pub enum AnyPool {
    Slabs(Pool),
    Driver(DriverPool),
}

#[derive(Debug)]
pub enum Buffer {
    Unified(UnifiedBuffer<u32>),
    Device(DeviceBuffer<u32>),
    Pinned(PinnedBuffer<u32>),
}

/// Calls the same method of each.
macro_rules! each {
    ($this:expr, $it:ident => $call:expr) => {
        match $this {
            Buffer::Unified($it) => $call,
            Buffer::Device($it) => $call,
            Buffer::Pinned($it) => $call,
        }
    };
}

/// A buffer of the pool's kind.
macro_rules! make {
    ($pool:expr, $make:ident, $($argument:expr),*) => {{
        let resource = $pool.resource();
        Ok(match resource.kind() {
            MemoryKind::Managed => Buffer::Unified(UnifiedBuffer::$make(resource, $($argument),*)?),
            MemoryKind::Device => Buffer::Device(DeviceBuffer::$make(resource, $($argument),*)?),
            _ => Buffer::Pinned(PinnedBuffer::$make(resource, $($argument),*)?),
        })
    }};
}

impl AnyPool {
    pub fn resource(&self) -> &dyn MemoryResource {
        match self {
            Self::Slabs(pool) => pool,
            Self::Driver(pool) => pool,
        }
    }

    pub fn zeroed(&self, len: usize) -> Result<Buffer> {
        make!(self, zeroed_in, len)
    }

    pub fn copy_of(&self, elements: &[u32]) -> Result<Buffer> {
        make!(self, from_slice_in, elements)
    }

    /// Memory with the contents of its former owner; in pinned memory zeros.
    pub fn uninit(&self, len: usize) -> Result<Buffer> {
        let resource = self.resource();
        // SAFETY: the tests write it first, or read data of the former owner; any bytes are a valid element.
        #[allow(unsafe_code, reason = "the tests check what an allocation does")]
        unsafe {
            Ok(match resource.kind() {
                MemoryKind::Managed => {
                    Buffer::Unified(UnifiedBuffer::uninit_in(resource, len)?.assume_init())
                }
                MemoryKind::Device => {
                    Buffer::Device(DeviceBuffer::uninit_in(resource, len)?.assume_init())
                }
                _ => Buffer::Pinned(PinnedBuffer::zeroed_in(resource, len)?),
            })
        }
    }

    pub fn stats(&self) -> PoolStats {
        match self {
            Self::Slabs(pool) => pool.stats(),
            Self::Driver(pool) => pool.stats(),
        }
    }

    pub fn trim(&self) -> usize {
        match self {
            Self::Slabs(pool) => pool.trim(),
            Self::Driver(pool) => pool.trim(),
        }
    }
}

impl Buffer {
    pub fn view_mut(&mut self) -> ViewMut<'_, u32> {
        each!(self, it => it.view_mut(..)).unwrap()
    }

    pub fn fill_on(&mut self, value: u32, stream: &Stream) {
        each!(self, it => it.fill_on(value, stream)).unwrap();
    }

    pub fn copy_to(&self, target: &mut DeviceBuffer<u32>, stream: &Stream) {
        each!(self, it => stream.copy(it, target)).unwrap();
    }

    pub fn copy_from(&mut self, source: &DeviceBuffer<u32>, stream: &Stream) {
        each!(self, it => stream.copy(source, it)).unwrap();
    }

    pub fn contents(&self) -> Vec<u32> {
        each!(self, it => it.to_vec()).unwrap()
    }

    pub fn address(&self) -> usize {
        match self {
            Self::Unified(it) => it.as_ptr().addr(),
            Self::Device(it) => it.as_ptr().addr(),
            Self::Pinned(it) => it.as_ptr().addr(),
        }
    }

    pub fn id(&self) -> u64 {
        each!(self, it => it.id())
    }

    pub fn close(self) -> Result<()> {
        each!(self, it => it.close())
    }
}
