//! Unified buffers of memory that exists: vectors.
#![allow(unsafe_code, reason = "adopts memory of the caller")]

use crate::DeviceCopy;
use crate::buffer::memory::Memory;
use crate::buffer::unified::{UnifiedBuffer, UnifiedOptions};
use crate::context::capture;
use crate::context::device::Device;
use crate::context::drain::drain_or_abort;
use crate::context::tracker::{Access, InFlight};
use crate::driver::location::Location;
use crate::error::Result;
use crate::fork;
use crate::resource::existing::Existing;
use crate::resource::kind::MemoryKind;
use crate::resource::placement::{Chosen, Data, Placement, Why};
use std::any::Any;
use std::ptr::NonNull;

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// Makes a buffer of a vector. On a device with pageable memory access, it is the vector's own memory, without a copy and without a call of
    /// CUDA ([`placement`](Self::placement) tells). Otherwise it is a copy, as that of [`from_slice`](Self::from_slice), and the vector is freed.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// let mut data = cuda_um::UnifiedBuffer::from_vec(&device, vec![1.0f32; 1000])?;
    /// data.fill(2.0)?; // by the device
    /// assert_eq!(data.into_vec()?[999], 2.0); // the same vector, if it was adopted
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed) for the copy. The vector is lost after an error.
    #[track_caller]
    pub fn from_vec(device: &Device, mut elements: Vec<T>) -> Result<Self> {
        let (at, options) = (NonNull::from(&mut elements[..]), UnifiedOptions::default());
        // SAFETY: the vector's heap memory does not move while the buffer owns the vector.
        unsafe { Self::of_data(device, at, Box::new(elements), options, Data::Vector) }
    }

    /// A buffer of data of the caller: the data themselves, on a device that accesses them, or a copy.
    ///
    /// # Safety
    ///
    /// The elements are valid, do not move, and nothing else uses them while `held` lives.
    #[track_caller]
    pub(super) unsafe fn of_data(
        device: &Device,
        elements: NonNull<[T]>,
        held: Box<dyn Any + Send + Sync>,
        options: UnifiedOptions,
        data: Data,
    ) -> Result<Self> {
        let can_adopt = device.capabilities().pageable_memory_access;
        if options.placement == Placement::System {
            let what = format!("a {data} as a buffer, without a copy");
            device.state().check_pageable_access(&what)?;
        }
        if !can_adopt || matches!(options.placement, Placement::Managed | Placement::Mapped) {
            // SAFETY: guaranteed by the caller.
            let mut copy = Self::from_slice_with(device, unsafe { elements.as_ref() }, options)?;
            if let Some(chosen) = copy.raw.chosen.as_mut().filter(|_| !can_adopt) {
                chosen.why = Why::Copied(data);
            }
            return Ok(copy);
        }
        let mut buffer = Self::made(device, elements.len(), |bytes| {
            let (memory, held) = ((elements.cast(), bytes), Some(held));
            Ok(Existing::system_memory(
                device, "adopted", memory, held, None,
            ))
        })?;
        buffer.raw.chosen = Some(Chosen {
            pattern: options.pattern,
            kind: MemoryKind::System,
            why: Why::Adopted(data),
        });
        buffer.advise_as_chosen()?;
        Ok(buffer)
    }

    /// Returns the same memory as bytes, for a buffer whose element type is a value.
    pub fn into_bytes(self) -> UnifiedBuffer<u8> {
        Memory::of_raw(self.raw)
    }

    /// Waits for work that writes, and returns the elements of system memory, for buffers of the CPU in um-backend. A failure of that work is
    /// only logged: the elements then have unspecified values. In a child made by `fork`, which has a copy of the memory, there is no such work.
    #[doc(hidden)]
    pub fn system_slice(&self) -> &[T] {
        assert!(
            self.raw.is_host_memory(),
            "other memory may be on the device"
        );
        self.settle(Access::Read);
        // SAFETY: the memory is of the host and initialised, no device writes it now, and a new write needs an exclusive borrow.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }

    /// Does the same as [`system_slice`](Self::system_slice), after all work.
    #[doc(hidden)]
    pub fn system_slice_mut(&mut self) -> &mut [T] {
        assert!(
            self.raw.is_host_memory() && self.raw.check_write().is_ok(),
            "other memory may be on the device, or be read-only"
        );
        self.settle(Access::Write);
        // SAFETY: as above; no device uses the memory now, and it is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr(), self.len()) }
    }

    /// Does the same as [`into_vec`](Self::into_vec), after a failure of the work, too.
    #[doc(hidden)]
    pub fn into_system_vec(mut self) -> Vec<T> {
        if !self.raw.holds::<Vec<T>>() {
            return self.system_slice().to_vec();
        }
        self.settle(Access::Write);
        // The work is over, also if a wait for it fails once more.
        self.raw.in_flight = InFlight::default();
        self.into_vec().unwrap_or_default()
    }

    fn settle(&self, access: Access) {
        if fork::is_inherited() {
            return;
        }
        let part = || self.raw.part_of(0..self.raw.bytes(), access);
        capture::accessed_by_host(part, "as_slice");
        if let Err(error) = drain_or_abort(&self.raw.in_flight.before(access)) {
            let buffer = self.id();
            crate::telemetry::warn!(buffer, %error, "work on a buffer of the CPU failed");
        }
        self.raw.in_flight.prune();
        self.raw.declare_host_access(&(0..self.raw.bytes()), access);
        self.raw.pages.touched(Location::Host, access);
    }
}
