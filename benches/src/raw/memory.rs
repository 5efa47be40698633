//! The three kinds of memory, and host access to them.
#![allow(unsafe_code, reason = "calls raw CUDA")]

use super::Raw;
use anyhow::{Context, Result};
use cuda_um::sys;
use cuda_um_testkit::call::Calls;
use std::ops::Range;
use std::ptr::null_mut;
use std::rc::Rc;

/// The kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cudaMalloc`
    Device,
    /// `cudaMallocManaged`
    Managed,
    /// `cudaHostAlloc`, mapped: the device uses the same address.
    Pinned,
}

/// Memory of CUDA, freed when dropped.
pub struct Memory {
    raw: Rc<Raw>,
    pub(super) pointer: *mut f32,
    pub(super) len: usize,
    pub(super) kind: Kind,
}

impl Raw {
    /// Allocates `len` elements with undefined contents.
    pub fn allocate(self: &Rc<Self>, kind: Kind, len: usize) -> Result<Memory> {
        let (table, bytes) = (&self.table, len * size_of::<f32>());
        let pointer = match kind {
            Kind::Device => table.malloc(bytes),
            Kind::Managed => table.malloc_managed(bytes, sys::cudaMemAttachGlobal),
            Kind::Pinned => table.host_alloc(bytes, sys::cudaHostAllocMapped),
        }? as *mut f32;
        Ok(Memory {
            raw: Rc::clone(self),
            pointer,
            len,
            kind,
        })
    }

    /// `cudaMalloc` on another device than the stream's.
    pub fn allocate_on(self: &Rc<Self>, device: i32, len: usize) -> Result<Memory> {
        self.table.set_device(device)?;
        let memory = self.allocate(Kind::Device, len);
        self.table.set_device(0)?;
        memory
    }
}

impl Memory {
    /// The addresses.
    pub(super) fn range(&self) -> Range<usize> {
        let start = self.pointer as usize;
        start..start + self.bytes()
    }

    pub(super) fn bytes(&self) -> usize {
        self.len * size_of::<f32>()
    }

    /// The elements, for reading on the host.
    ///
    /// # Panics
    /// If this is device memory, or if the stream was not waited for.
    pub fn host(&self) -> &[f32] {
        self.assert_idle();
        // SAFETY: the host may access this kind of memory, for this number of elements, and no device work is in flight. Every
        // bit pattern is an `f32`, and memory from CUDA counts as initialised.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }

    /// The elements, for writing on the host.
    ///
    /// # Panics
    /// As for [`host`](Self::host).
    pub fn host_mut(&mut self) -> &mut [f32] {
        self.assert_idle();
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }

    fn assert_idle(&self) {
        assert!(self.kind != Kind::Device, "the host cannot access this");
        assert!(!self.raw.busy.get(), "wait for the stream first");
    }

    /// Frees the memory, and returns the error that a drop would ignore.
    pub fn free(mut self) -> Result<()> {
        self.release().context("freeing")
    }

    fn release(&mut self) -> Result<()> {
        let pointer = std::mem::replace(&mut self.pointer, null_mut());
        if pointer.is_null() {
            return Ok(());
        }
        let table = &self.raw.table;
        if self.raw.busy.get() {
            self.raw.synchronize()?;
        }
        match self.kind {
            Kind::Pinned => table.free_host(pointer)?,
            _ => table.free(pointer)?,
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            eprintln!("um_bench: {error}");
        }
    }
}
