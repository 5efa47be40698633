//! The three kinds of memory, and the host's eyes on them.
#![allow(unsafe_code, reason = "calls CUDA by its own functions")]

use super::{Raw, check};
use anyhow::{Context, Result};
use cuda_um::sys;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cudaMalloc`
    Device,
    /// `cudaMallocManaged`
    Managed,
    /// `cudaHostAlloc`, mapped: the device knows it by the same address.
    Pinned,
}

/// Memory of CUDA, given back when dropped.
pub struct Memory {
    raw: Rc<Raw>,
    pub(super) pointer: *mut f32,
    pub(super) len: usize,
    pub(super) kind: Kind,
}

impl Raw {
    /// `len` elements; what they hold is whatever is there.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn allocate(self: &Rc<Self>, kind: Kind, len: usize) -> Result<Memory> {
        let table = &self.table;
        let mut pointer: *mut c_void = null_mut();
        let bytes = len * size_of::<f32>();
        // SAFETY: the place is valid for the call.
        unsafe {
            match kind {
                Kind::Device => {
                    check(table, "cudaMalloc", (table.cudaMalloc)(&mut pointer, bytes))?
                }
                Kind::Managed => check(
                    table,
                    "cudaMallocManaged",
                    (table.cudaMallocManaged)(&mut pointer, bytes, sys::cudaMemAttachGlobal),
                )?,
                Kind::Pinned => check(
                    table,
                    "cudaHostAlloc",
                    (table.cudaHostAlloc)(&mut pointer, bytes, sys::cudaHostAllocMapped),
                )?,
            }
        }
        Ok(Memory {
            raw: Rc::clone(self),
            pointer: pointer.cast(),
            len,
            kind,
        })
    }
}

impl Memory {
    /// The elements, for the host.
    ///
    /// # Panics
    /// If this is device memory, or if the stream was not waited for.
    pub fn host(&self) -> &[f32] {
        self.assert_idle();
        // SAFETY: the host may touch this kind, for so many elements, and no device works: every bit pattern is an `f32`, and CUDA
        // gives no memory that is not initialised in the sense of the language.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }

    /// The elements, for the host to write.
    ///
    /// # Panics
    /// As for [`host`](Self::host).
    pub fn host_mut(&mut self) -> &mut [f32] {
        self.assert_idle();
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }

    fn assert_idle(&self) {
        assert!(self.kind != Kind::Device, "the host cannot touch this");
        assert!(!self.raw.busy.get(), "wait for the stream first");
    }

    /// Frees, with the error that dropping it would swallow.
    ///
    /// # Errors
    /// What CUDA reports.
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
        // SAFETY: allocated by the function's twin, and no work uses it.
        unsafe {
            match self.kind {
                Kind::Pinned => check(table, "cudaFreeHost", (table.cudaFreeHost)(pointer.cast())),
                _ => check(table, "cudaFree", (table.cudaFree)(pointer.cast())),
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            eprintln!("um_bench: {error}");
        }
    }
}
