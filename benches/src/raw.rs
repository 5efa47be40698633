//! Raw CUDA: the calls of a C++ program, made through the same table that cuda-um uses, with nothing in between.
//!
//! One [`Raw`] has one stream. One flag says if work may be in flight, so that the host cannot access memory at this time. This
//! costs one store for each call, and makes this interface safe.
#![allow(unsafe_code, reason = "calls raw CUDA")]

/// Calls a function of the table; an error names it.
macro_rules! cuda {
    ($table:expr, $name:ident ( $($argument:expr),* )) => {
        $crate::raw::check(
            &$table,
            stringify!($name),
            cuda_um_testkit::call!($table, $name($($argument),*)),
        )
    };
}

mod graph;
mod in_order;
mod memory;
mod operations;
mod temporaries;

use anyhow::{Result, bail, ensure};
use cuda_um::sys;
use cuda_um_testkit::call;
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use sys::{Table, cudaError};

pub use graph::Graph;
pub use in_order::ManagedPool;
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
        let processors_of = sys::cudaDeviceAttr::cudaDevAttrMultiProcessorCount;
        cuda!(table, cudaSetDevice(0))?;
        cuda!(table, cudaFree(null_mut()))?;
        cuda!(
            table,
            cudaDeviceGetAttribute(&mut processors, processors_of, 0)
        )?;
        cuda!(table, cudaStreamCreateWithFlags(&mut stream, flags))?;
        let loaded = call!(driver, cuModuleLoadData(&mut module, image.as_ptr().cast()));
        ensure!(loaded.0 == 0, "cuModuleLoadData: {}", loaded.0);
        let found = call!(
            driver,
            cuModuleGetFunction(&mut scale, module, kernel.as_ptr())
        );
        ensure!(found.0 == 0, "cuModuleGetFunction: {}", found.0);
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
        // Every memory keeps this alive, so no work is in flight after the wait.
        call!(self.table, cudaStreamSynchronize(self.stream));
        call!(self.table, cudaStreamDestroy(self.stream));
        if let Ok(driver) = self.table.driver() {
            call!(driver, cuModuleUnload(self.module));
        }
    }
}

fn check(table: &Table, call: &str, code: cudaError) -> Result<()> {
    if code == cudaError::cudaSuccess {
        return Ok(());
    }
    call!(table, cudaGetLastError());
    let text = call!(table, cudaGetErrorString(code));
    // SAFETY: the text is NUL-terminated and static.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    bail!("{call}: {text} ({})", code.0)
}
