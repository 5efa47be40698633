//! Memory without an element type: its allocation, the work that uses it, and its release.

pub(crate) mod allocation;
pub(crate) mod arena;
pub(crate) mod block;
pub(crate) mod existing;
pub(crate) mod foreign;
pub(crate) mod host_access;
mod id;
pub(crate) mod kind;
pub(crate) mod location;
pub(crate) mod memory_resource;
pub(crate) mod owner;
pub(crate) mod pages;
pub(crate) mod placement;
pub(crate) mod pool;
pub(crate) mod separate;
pub(crate) mod system;

pub use crate::context::capability::UnifiedMemory;
pub use crate::driver::MemoryInfo;
pub use crate::resource::arena::DeviceArena;
pub use crate::resource::memory_resource::MemoryResource;
pub use crate::resource::placement::Placed;
pub use crate::resource::pool::{DriverPool, PoolStats};
pub use crate::resource::separate::{DeviceMemory, ManagedMemory, PinnedMemory};
pub use crate::resource::system::SystemMemory;
