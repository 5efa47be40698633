//! A pool of any kind, and a buffer of any type.

use cuda_um::{
    DeviceBuffer, DevicePool, PinnedBuffer, PinnedPool, PoolStats, Result, Stream, UnifiedBuffer,
    UnifiedPool, ViewMut,
};

#[derive(Clone, Debug)]
pub enum Any<U, D, P> {
    Unified(U),
    Device(D),
    Pinned(P),
}

pub type Pool = Any<UnifiedPool, DevicePool, PinnedPool>;
pub type Buffer = Any<UnifiedBuffer<u32>, DeviceBuffer<u32>, PinnedBuffer<u32>>;

/// Calls the same method of each.
macro_rules! each {
    ($this:expr, $it:ident => $call:expr) => {
        match $this {
            Any::Unified($it) => $call,
            Any::Device($it) => $call,
            Any::Pinned($it) => $call,
        }
    };
}

/// The same, with a result of the same kind.
macro_rules! map {
    ($this:expr, $it:ident => $call:expr) => {
        match $this {
            Any::Unified($it) => Any::Unified($call),
            Any::Device($it) => Any::Device($call),
            Any::Pinned($it) => Any::Pinned($call),
        }
    };
}

impl Pool {
    pub fn zeroed(&self, len: usize) -> Result<Buffer> {
        Ok(map!(self, pool => pool.zeroed(len)?))
    }

    pub fn copy_of(&self, elements: &[u32]) -> Result<Buffer> {
        Ok(map!(self, pool => pool.from_slice(elements)?))
    }

    /// Memory with the contents of its former owner; in pinned memory zeros.
    pub fn uninit(&self, len: usize) -> Result<Buffer> {
        // SAFETY: the tests write it first, or read data of the former owner; any bytes are a valid element.
        #[allow(unsafe_code, reason = "the tests check what an allocation does")]
        unsafe {
            Ok(match self {
                Self::Unified(pool) => Any::Unified(pool.uninit(len)?.assume_init()),
                Self::Device(pool) => Any::Device(pool.uninit(len)?.assume_init()),
                Self::Pinned(pool) => Any::Pinned(pool.zeroed(len)?),
            })
        }
    }

    pub fn stats(&self) -> PoolStats {
        each!(self, pool => pool.stats())
    }

    pub fn trim(&self) -> usize {
        each!(self, pool => pool.trim())
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
            Self::Device(it) => it.as_device_ptr().addr(),
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
