//! Raw CUDA: the calls of a C++ program, made through the same table that cuda-um uses, with nothing in between.
//!
//! One [`Raw`] has one stream. One flag says if work may be in flight, so that the host cannot access memory at this time. This
//! costs one store for each call, and makes this interface safe.
#![allow(unsafe_code, reason = "calls raw CUDA")]

mod calls;
mod foreign;
mod in_order;
mod memory;
mod operations;
mod temporaries;

use anyhow::{Result, bail, ensure};
use cuda_um::sys;
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use sys::{Table, cudaError};

pub use calls::Mark;
pub use foreign::Imported;
pub use in_order::{Held, ManagedPool};
pub use memory::{Kind, Memory};
pub use temporaries::{SCALE_IN_PLACE, Temporaries};

const SCALE: &str = include_str!("../../kernels/ptx/scale.ptx");
const THREADS: usize = 256;
/// Blocks for each multiprocessor: the same number as in the launchers of um-kernels.
const BLOCKS_EACH: usize = 32;

/// CUDA on device 0, with one stream and one kernel: `out = in × factor`.
pub struct Raw {
    table: Arc<Table>,
    stream: sys::cudaStream_t,
    module: sys::CUmodule,
    scale: sys::CUfunction,
    most_blocks: usize,
    busy: Cell<bool>,
}

impl Raw {
    /// Sets up the stream and the kernel. `non_blocking` as for `cudaStreamCreateWithFlags`: the stream and the default stream
    /// then ignore each other.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn open(table: &Arc<Table>, non_blocking: bool) -> Result<Rc<Self>> {
        Self::open_with(table, non_blocking, SCALE, c"scale_f32")
    }

    /// The same with another kernel.
    fn open_with(
        table: &Arc<Table>,
        non_blocking: bool,
        ptx: &str,
        kernel: &CStr,
    ) -> Result<Rc<Self>> {
        let driver = table.driver()?;
        let image = CString::new(ptx)?;
        let (mut stream, mut module, mut scale, mut processors) =
            (null_mut(), null_mut(), null_mut(), 0);
        let flags = if non_blocking {
            sys::cudaStreamNonBlocking
        } else {
            0
        };
        // SAFETY: every place is valid for its call; the image is a NUL-terminated text.
        unsafe {
            check(table, "cudaSetDevice", (table.cudaSetDevice)(0))?;
            check(table, "cudaFree", (table.cudaFree)(null_mut()))?;
            check(
                table,
                "cudaDeviceGetAttribute",
                (table.cudaDeviceGetAttribute)(
                    &mut processors,
                    sys::cudaDeviceAttr::cudaDevAttrMultiProcessorCount,
                    0,
                ),
            )?;
            check(
                table,
                "cudaStreamCreateWithFlags",
                (table.cudaStreamCreateWithFlags)(&mut stream, flags),
            )?;
            let loaded = (driver.cuModuleLoadData)(&mut module, image.as_ptr().cast());
            ensure!(loaded.0 == 0, "cuModuleLoadData: {}", loaded.0);
            let found = (driver.cuModuleGetFunction)(&mut scale, module, kernel.as_ptr());
            ensure!(found.0 == 0, "cuModuleGetFunction: {}", found.0);
        }
        Ok(Rc::new(Self {
            table: Arc::clone(table),
            stream,
            module,
            scale,
            most_blocks: processors as usize * BLOCKS_EACH,
            busy: Cell::new(false),
        }))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: created by `open`; every memory keeps this alive, so no work is in flight after the wait.
        unsafe {
            (self.table.cudaStreamSynchronize)(self.stream);
            (self.table.cudaStreamDestroy)(self.stream);
            if let Ok(driver) = self.table.driver() {
                (driver.cuModuleUnload)(self.module);
            }
        }
    }
}

fn check(table: &Table, call: &str, code: cudaError) -> Result<()> {
    if code == cudaError::cudaSuccess {
        return Ok(());
    }
    // SAFETY: no preconditions; the text is NUL-terminated and static.
    let text = unsafe {
        (table.cudaGetLastError)();
        let text = (table.cudaGetErrorString)(code);
        CStr::from_ptr(text).to_string_lossy().into_owned()
    };
    bail!("{call}: {text} ({})", code.0)
}
