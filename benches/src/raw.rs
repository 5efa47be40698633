//! Raw CUDA: the calls of a C++ program, made through the same table that cuda-um uses, with nothing in between.
//!
//! One [`Raw`] has one stream. One flag says if work may be in flight, so that the host cannot access memory at this time. This
//! costs one store for each call, and makes this interface safe.
mod graph;
mod in_order;
mod memory;
mod operations;
mod temporaries;

use anyhow::Result;
use cuda_um::sys::{self, Table};
use cuda_um_testkit::call::Calls;
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::rc::Rc;
use std::sync::Arc;

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
    stream: usize,
    module: usize,
    scale: usize,
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
        let flags = u32::from(non_blocking) * sys::cudaStreamNonBlocking;
        let processors = sys::cudaDeviceAttr::cudaDevAttrMultiProcessorCount.0;
        table.set_device(0)?;
        table.free(0)?;
        let most_blocks = table.device_attribute(processors, 0)? as usize * BLOCKS_EACH;
        let module = table.module_load(&CString::new(ptx)?)?;
        Ok(Rc::new(Self {
            table: Arc::clone(table),
            stream: table.stream_create(flags)?,
            module,
            scale: table.module_function(module, kernel)?,
            most_blocks,
            busy: Cell::new(false),
        }))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Every memory keeps this alive, so no work is in flight after the wait.
        let _ = self.table.stream_synchronize(self.stream);
        let _ = self.table.stream_destroy(self.stream);
        let _ = self.table.module_unload(self.module);
    }
}
