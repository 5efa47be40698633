//! Memory without an element type: its allocation, the work that uses it, and its release.

pub(crate) mod again;
pub(crate) mod allocation;
pub(crate) mod arena;
mod block;
pub(crate) mod device;
pub(crate) mod foreign;
pub(crate) mod host_access;
mod id;
pub(crate) mod kind;
pub(crate) mod location;
pub(crate) mod managed;
pub(crate) mod memory_resource;
pub(crate) mod owner;
pub(crate) mod pages;
pub(crate) mod pinned;
pub(crate) mod placement;
pub(crate) mod pool;
pub(crate) mod registered;
pub(crate) mod system;

pub use crate::context::capability::UnifiedMemory;
pub use crate::driver::MemoryInfo;
pub use crate::resource::arena::DeviceArena;
pub use crate::resource::device::DeviceMemory;
pub use crate::resource::managed::ManagedMemory;
pub use crate::resource::memory_resource::MemoryResource;
pub use crate::resource::pinned::PinnedMemory;
pub use crate::resource::placement::Placed;
pub use crate::resource::pool::{DriverPool, PoolStats};
pub use crate::resource::system::SystemMemory;
