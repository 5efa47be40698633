//! CUDA by its own functions: what a C++ program calls, called from the same table that cuda-um uses, with nothing in between.
//!
//! One [`Raw`] has one stream. It remembers in one flag whether work may be under way, so that the host cannot look at memory
//! meanwhile; that costs a store a call, and makes everything here safe to call.
#![allow(unsafe_code, reason = "calls CUDA by its own functions")]

mod calls;

use anyhow::{Context, Result, bail, ensure};
use cuda_um::sys;
use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use sys::{Table, cudaError, cudaMemcpyKind};

pub use calls::Mark;

const SCALE: &str = include_str!("../../kernels/ptx/scale.ptx");
const THREADS: usize = 256;
/// Blocks for each multiprocessor: as the launchers of um-kernels have it.
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
    pointer: *mut f32,
    len: usize,
    kind: Kind,
}

impl Raw {
    /// Sets up; `non_blocking` as for `cudaStreamCreateWithFlags`: the stream and the default stream then ignore each other.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn open(table: &Arc<Table>, non_blocking: bool) -> Result<Rc<Self>> {
        let driver = table.driver()?;
        let image = CString::new(SCALE)?;
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
            let found = (driver.cuModuleGetFunction)(&mut scale, module, c"scale_f32".as_ptr());
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

    /// `cudaMemcpy` from memory of the program. As CUDA has it, small copies may still be on their way when it returns; work on
    /// a blocking stream comes after.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn copy_from_slice(&self, target: &mut Memory, source: &[f32]) -> Result<()> {
        ensure!(target.len == source.len(), "lengths differ");
        let direction = match target.kind {
            Kind::Device => cudaMemcpyKind::cudaMemcpyHostToDevice,
            _ => cudaMemcpyKind::cudaMemcpyDefault,
        };
        let bytes = size_of_val(source);
        // SAFETY: both are valid for so many bytes, and the target is borrowed exclusively.
        let code = unsafe {
            (self.table.cudaMemcpy)(
                target.pointer.cast(),
                source.as_ptr().cast(),
                bytes,
                direction,
            )
        };
        check(&self.table, "cudaMemcpy", code)
    }

    /// `cudaMemcpy` to memory of the program, after all work of the stream.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn copy_to_slice(&self, source: &Memory, target: &mut [f32]) -> Result<()> {
        ensure!(source.len == target.len(), "lengths differ");
        let direction = match source.kind {
            Kind::Device => cudaMemcpyKind::cudaMemcpyDeviceToHost,
            _ => cudaMemcpyKind::cudaMemcpyDefault,
        };
        let bytes = size_of_val(target);
        // SAFETY: both are valid for so many bytes, and the target is borrowed exclusively.
        let code = unsafe {
            (self.table.cudaMemcpy)(
                target.as_mut_ptr().cast(),
                source.pointer.cast(),
                bytes,
                direction,
            )
        };
        check(&self.table, "cudaMemcpy", code)
    }

    /// `cudaMemcpyAsync` between two memories of CUDA.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn copy(&self, source: &Memory, target: &mut Memory) -> Result<()> {
        ensure!(source.len == target.len, "lengths differ");
        let bytes = source.len * size_of::<f32>();
        self.busy.set(true);
        // SAFETY: both are valid for so many bytes; the host keeps off until the stream is waited for.
        let code = unsafe {
            (self.table.cudaMemcpyAsync)(
                target.pointer.cast(),
                source.pointer.cast(),
                bytes,
                cudaMemcpyKind::cudaMemcpyDefault,
                self.stream,
            )
        };
        check(&self.table, "cudaMemcpyAsync", code)
    }

    /// `cudaMemPrefetchAsync` of managed memory to the device, or to the host.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn prefetch(&self, memory: &Memory, to_device: bool) -> Result<()> {
        use sys::cudaMemLocationType as Type;
        ensure!(memory.kind == Kind::Managed, "only managed memory moves");
        let (start, bytes) = (memory.pointer.cast(), memory.len * size_of::<f32>());
        self.busy.set(true);
        // SAFETY: the range is one live managed allocation.
        let code = unsafe {
            if let Some(prefetch) = self.table.cudaMemPrefetchAsync_v13 {
                let type_ = match to_device {
                    true => Type::cudaMemLocationTypeDevice,
                    false => Type::cudaMemLocationTypeHost,
                };
                prefetch(
                    start,
                    bytes,
                    sys::cudaMemLocation { type_, id: 0 },
                    0,
                    self.stream,
                )
            } else if let Some(prefetch) = self.table.cudaMemPrefetchAsync_v11 {
                let ordinal = if to_device { 0 } else { sys::cudaCpuDeviceId };
                prefetch(start, bytes, ordinal, self.stream)
            } else {
                bail!("this runtime has no cudaMemPrefetchAsync");
            }
        };
        check(&self.table, "cudaMemPrefetchAsync", code)
    }

    /// Whether the runtime has `cudaMemPrefetchBatchAsync`: from CUDA 13.0 on.
    pub fn has_prefetch_batch(&self) -> bool {
        self.table.cudaMemPrefetchBatchAsync.is_some()
    }

    /// `cudaMemPrefetchBatchAsync` of managed memories to the device.
    ///
    /// # Errors
    /// What CUDA reports, or that the runtime is too old.
    pub fn prefetch_batch(&self, memories: &[Memory]) -> Result<()> {
        let Some(prefetch) = self.table.cudaMemPrefetchBatchAsync else {
            bail!("this runtime has no cudaMemPrefetchBatchAsync");
        };
        let managed = memories.iter().all(|one| one.kind == Kind::Managed);
        ensure!(managed, "only managed memory moves");
        let mut starts: Vec<*mut c_void> = memories.iter().map(|one| one.pointer.cast()).collect();
        let mut sizes: Vec<usize> = memories
            .iter()
            .map(|one| one.len * size_of::<f32>())
            .collect();
        let mut place = sys::cudaMemLocation {
            type_: sys::cudaMemLocationType::cudaMemLocationTypeDevice,
            id: 0,
        };
        let mut first = 0; // the place is that of all ranges from the first on
        self.busy.set(true);
        // SAFETY: every range is one live managed allocation, and the arrays are as long as is said.
        let code = unsafe {
            prefetch(
                starts.as_mut_ptr(),
                sizes.as_mut_ptr(),
                starts.len(),
                &mut place,
                &mut first,
                1,
                0,
                self.stream,
            )
        };
        check(&self.table, "cudaMemPrefetchBatchAsync", code)
    }

    /// `cudaMemAdvise` of managed memory: the device and the host mostly read it.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn advise_read_mostly(&self, memory: &Memory) -> Result<()> {
        ensure!(
            memory.kind == Kind::Managed,
            "only managed memory has advice"
        );
        let (start, bytes) = (memory.pointer.cast(), memory.len * size_of::<f32>());
        let advice = sys::cudaMemoryAdvise::cudaMemAdviseSetReadMostly;
        // SAFETY: the range is one live managed allocation; this advice looks at no place.
        let code = unsafe {
            if let Some(advise) = self.table.cudaMemAdvise_v13 {
                let type_ = sys::cudaMemLocationType::cudaMemLocationTypeDevice;
                advise(start, bytes, advice, sys::cudaMemLocation { type_, id: 0 })
            } else if let Some(advise) = self.table.cudaMemAdvise_v11 {
                advise(start, bytes, advice, 0)
            } else {
                bail!("this runtime has no cudaMemAdvise");
            }
        };
        check(&self.table, "cudaMemAdvise", code)
    }

    /// Enqueues `output = input × factor` with `cuLaunchKernel`.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn scale(&self, input: &Memory, output: &mut Memory, factor: f32) -> Result<()> {
        ensure!(input.len == output.len, "lengths differ");
        let count = input.len as u64;
        let blocks = input
            .len
            .div_ceil(THREADS)
            .clamp(1, self.most_blocks.max(1)) as u32;
        let mut arguments: [*mut c_void; 4] = [
            (&raw const input.pointer).cast_mut().cast(),
            (&raw const output.pointer).cast_mut().cast(),
            (&raw const factor).cast_mut().cast(),
            (&raw const count).cast_mut().cast(),
        ];
        let driver = self.table.driver()?;
        self.busy.set(true);
        // SAFETY: the arguments are those of kernels/cuda/scale.cu, which touches `count` elements of each; the device knows all
        // three kinds of memory by these addresses, and the host keeps off until the stream is waited for.
        let code = unsafe {
            (driver.cuLaunchKernel)(
                self.scale,
                blocks,
                1,
                1,
                THREADS as u32,
                1,
                1,
                0,
                self.stream,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        ensure!(code.0 == 0, "cuLaunchKernel: {}", code.0);
        Ok(())
    }

    /// Waits for the stream.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives.
        let code = unsafe { (self.table.cudaStreamSynchronize)(self.stream) };
        check(&self.table, "cudaStreamSynchronize", code)?;
        self.busy.set(false);
        Ok(())
    }

    /// Waits for all streams: a non-blocking stream does not wait for the default one, which `cudaMemcpy` uses.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn wait_for_all(&self) -> Result<()> {
        // SAFETY: no preconditions.
        let code = unsafe { (self.table.cudaDeviceSynchronize)() };
        check(&self.table, "cudaDeviceSynchronize", code)?;
        self.busy.set(false);
        Ok(())
    }

    /// `cudaMallocAsync` and `cudaFreeAsync` from the device's own pool, in the order of the stream.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn allocate_and_free_in_order(&self, bytes: usize) -> Result<()> {
        let mut pointer = null_mut();
        // SAFETY: the place is valid for the call; nothing uses the memory.
        unsafe {
            let code = (self.table.cudaMallocAsync)(&mut pointer, bytes, self.stream);
            check(&self.table, "cudaMallocAsync", code)?;
            let code = (self.table.cudaFreeAsync)(pointer, self.stream);
            check(&self.table, "cudaFreeAsync", code)
        }
    }
}

impl Raw {
    /// Writes a number to the end of memory from `cudaMallocAsync`, and returns what is read from there.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn through_memory_in_order(&self, bytes: usize, number: f32) -> Result<f32> {
        ensure!(bytes >= size_of::<f32>(), "no room for a number");
        let (table, size) = (&self.table, size_of::<f32>());
        let (mut pointer, mut found) = (null_mut(), f32::NAN);
        // SAFETY: the last four bytes of the new memory, and two numbers that live until the stream has been waited for.
        unsafe {
            let code = (table.cudaMallocAsync)(&mut pointer, bytes, self.stream);
            check(table, "cudaMallocAsync", code)?;
            let last = pointer.cast::<u8>().wrapping_add(bytes - size);
            let copy = |to: *mut c_void, from: *const c_void| {
                let kind = cudaMemcpyKind::cudaMemcpyDefault;
                let code = (table.cudaMemcpyAsync)(to, from, size, kind, self.stream);
                check(table, "cudaMemcpyAsync", code)
            };
            let copied = copy(last.cast(), (&raw const number).cast())
                .and_then(|()| copy((&raw mut found).cast(), last.cast_const().cast()));
            let code = (table.cudaFreeAsync)(pointer, self.stream);
            let waited = self.synchronize();
            copied?;
            check(table, "cudaFreeAsync", code)?;
            waited?;
        }
        Ok(found)
    }
}

/// Allocations in the order of a stream that are alive until this is dropped.
pub struct Held {
    raw: Rc<Raw>,
    pointers: Vec<*mut c_void>,
}

impl Raw {
    /// `cudaMallocAsync`, so many times.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn hold_in_order(self: &Rc<Self>, bytes: usize, count: usize) -> Result<Held> {
        let mut held = Held {
            raw: Rc::clone(self),
            pointers: Vec::with_capacity(count),
        };
        for _ in 0..count {
            let mut pointer = null_mut();
            // SAFETY: the place is valid for the call.
            let code = unsafe { (self.table.cudaMallocAsync)(&mut pointer, bytes, self.stream) };
            check(&self.table, "cudaMallocAsync", code)?;
            held.pointers.push(pointer);
        }
        self.synchronize()?;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let table = &self.raw.table;
        for pointer in self.pointers.drain(..) {
            // SAFETY: allocated in the order of this stream, used by nobody, and freed once.
            let code = unsafe { (table.cudaFreeAsync)(pointer, self.raw.stream) };
            if let Err(error) = check(table, "cudaFreeAsync", code) {
                eprintln!("um_bench: {error}");
            }
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: made by `open`; every memory keeps this alive, so nothing is under way after the wait.
        unsafe {
            (self.table.cudaStreamSynchronize)(self.stream);
            (self.table.cudaStreamDestroy)(self.stream);
            if let Ok(driver) = self.table.driver() {
                (driver.cuModuleUnload)(self.module);
            }
        }
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

fn check(table: &Table, call: &str, code: cudaError) -> Result<()> {
    if code == cudaError::cudaSuccess {
        return Ok(());
    }
    // SAFETY: no preconditions; the text is NUL-terminated and static.
    let text = unsafe {
        (table.cudaGetLastError)();
        let text = (table.cudaGetErrorString)(code);
        std::ffi::CStr::from_ptr(text)
            .to_string_lossy()
            .into_owned()
    };
    bail!("{call}: {text} ({})", code.0)
}
