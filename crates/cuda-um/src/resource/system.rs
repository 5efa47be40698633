//! System memory: memory of the operating system that kernels use where it is. No call of CUDA allocates or frees it.
#![allow(
    unsafe_code,
    reason = "passes memory that CUDA did not allocate to CUDA"
)]

#[cfg(all(test, not(cuda_um_loom)))]
mod tests;

use crate::context::device::Device;
use crate::driver::host_memory;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::existing::Existing;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::pages;
use crate::resource::separate::allocate_alone;
use cuda_um_sys::cudaMemoryAdvise;
use std::any::Any;
use std::ptr::NonNull;

/// Memory of the operating system, for devices with pageable memory access
/// ([`Capabilities::pageable_memory_access`](crate::Capabilities::pageable_memory_access)): kernels use it at the host's address. It is zeroed,
/// and a page belongs where it is first touched.
///
/// ```
/// # let sim = cuda_um_sim::Sim::builder().gpu(cuda_um_sim::Gpu::Gh200).build().unwrap();
/// # let device = cuda_um::Runtime::from_table(sim.table())?.device(0)?;
/// use cuda_um::{Location, UnifiedBuffer, resource::SystemMemory};
///
/// let memory = SystemMemory::new(&device).headroom_bytes(1 << 30); // 1 GiB of the device stays free for others
/// let data = UnifiedBuffer::<f32>::zeroed_in(&memory, 1 << 20)?;
/// data.prefetch(Location::Host)?;
/// assert_eq!(data.host()?[0], 0.0);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// Allocations of 64 KiB and more have pages of their own; from 2 MiB on they are aligned to 2 MiB, and the system is asked for huge pages.
/// Smaller ones come from the heap of the process, aligned to 256 bytes. There are no pools of system memory.
#[derive(Clone, Debug)]
#[doc(alias = "system_memory_resource")]
#[doc(alias = "sam_headroom_memory_resource")]
pub struct SystemMemory {
    device: Device,
    headroom_bytes: Option<usize>,
}

impl SystemMemory {
    /// Makes the resource for a device. A device without pageable memory access refuses each allocation.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            headroom_bytes: None,
        }
    }

    /// Sets how many bytes of the device's memory stay free for others: otherwise system memory that the device uses can fill the device, and
    /// `cudaMalloc` fails. Of each allocation, the part that leaves the headroom free prefers the device, the rest the host (`cudaMemAdvise`,
    /// `SetPreferredLocation`), where kernels use it over the link. Memory that exists is not moved.
    #[must_use]
    pub fn headroom_bytes(mut self, bytes: usize) -> Self {
        self.headroom_bytes = Some(bytes);
        self
    }
}

/// Allocates system memory. A headroom is a number of bytes of the device's memory that stay free.
pub(crate) fn allocate(
    device: &Device,
    headroom: Option<usize>,
    bytes: usize,
) -> Result<Allocation> {
    device.state().check_pageable_access("system memory")?;
    allocate_alone(device, || {
        let (pointer, held) = zeros(bytes, headroom.is_some())?;
        let memory = (pointer, bytes);
        let allocation = Existing::system_memory(device, "system", memory, Some(held), headroom);
        if let Some(headroom) = headroom {
            // An error frees the memory.
            leave_headroom(device, headroom, &allocation)?;
        }
        Ok(allocation)
    })
}

fn leave_headroom(device: &Device, headroom: usize, memory: &Allocation) -> Result<()> {
    let allocatable = device.memory_info()?.free_bytes.saturating_sub(headroom);
    let bytes = memory.bytes();
    // Whole pages of any size that hosts have.
    let near = match allocatable < bytes {
        true => allocatable / OWN_PAGES_FROM * OWN_PAGES_FROM,
        false => bytes,
    };
    let parts = [
        (0..near, Location::from(device)),
        (near..bytes, Location::Host),
    ];
    for (part, location) in parts.into_iter().filter(|(part, _)| !part.is_empty()) {
        let set = cudaMemoryAdvise::cudaMemAdviseSetPreferredLocation;
        let (api, addresses) = (device.api(), memory.address_range(&part));
        // SAFETY: the range is a part of this live memory, on pages of its own.
        unsafe { api.advise(device.ordinal(), addresses, set, location) }?;
    }
    Ok(())
}

impl MemoryResource for SystemMemory {
    fn device(&self) -> &Device {
        &self.device
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::System
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        allocate(&self.device, self.headroom_bytes, bytes)
    }
}

/// Memory that begins with this size has pages of its own: the largest base page of a host.
const OWN_PAGES_FROM: usize = 64 << 10;

/// The alignment of small memory: that of `cudaMalloc`.
#[derive(Clone, Copy, bytemuck::Zeroable)]
#[repr(align(256))]
struct Line(#[allow(dead_code, reason = "only memory")] [u8; 256]);

/// Allocates zeros, which no processor has touched if they have pages of their own. Returns them with the object that holds them.
fn zeros(bytes: usize, own_pages: bool) -> Result<(NonNull<u8>, Box<dyn Any + Send + Sync>)> {
    let refused = || {
        let (free_bytes, total_bytes) = host_memory();
        Error::OutOfMemory {
            call: MemoryKind::System.call(),
            subject: "system memory".to_owned(),
            requested_bytes: bytes,
            free_bytes,
            total_bytes,
        }
    };
    if bytes < OWN_PAGES_FROM && !own_pages {
        let lines = bytes.div_ceil(size_of::<Line>());
        let lines = bytemuck::allocation::try_zeroed_vec::<Line>(lines);
        let mut lines = lines.map_err(|()| refused())?;
        let start = NonNull::from(&mut lines[..]).cast();
        return Ok((start, Box::new(lines)));
    }
    let (start, mapping) = pages::map(bytes).map_err(|_| refused())?;
    Ok((start, Box::new(mapping)))
}
