//! The functions of the tables without a layer in between, for code that checks or measures CUDA itself.
//!
//! [`Calls`] has a method for each: addresses and handles are numbers, results are values, and a refusal is its [`Code`].
//! [`call!`](crate::call!) is for functions and forms that [`Calls`] does not have.
//!
//! An address may be any number: CUDA refuses what it does not know. A caller passes places that are valid for the call, memory
//! and handles that live until the work is done, and arguments that match the kernel.
#![allow(
    unsafe_code,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "calls the C functions of the table"
)]

use cuda_um::sys::{self, DriverTable, Table};
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::ops::Range;
use std::ptr::{null, null_mut};

/// Calls a function of a table, or one that a version may lack: `call!(table, cudaFree(pointer))`, `call!(function(pointer))`.
///
/// It hides `unsafe`: the rules of the module that uses it say why its calls are sound.
#[macro_export]
macro_rules! call {
    ($table:expr, $name:ident ( $($argument:expr),* $(,)? )) => {{
        let function = $table.$name;
        $crate::call!(function($($argument),*))
    }};
    ($function:ident ( $($argument:expr),* $(,)? )) => {{
        #[allow(clippy::macro_metavars_in_unsafe, reason = "the macro is for modules that may be unsafe")]
        // SAFETY: pointers are valid for the call, or are refused by CUDA without an access.
        let code = unsafe { $function($($argument),*) };
        code
    }};
}

/// The code of a call, and the function that returned it. The runtime and the driver use the same numbers for codes that both have.
#[derive(Clone, Copy, Eq)]
pub struct Code(pub u32, pub &'static str);

/// The result of a call: its value, or the code of the refusal.
pub type Called<T = ()> = Result<T, Code>;

impl Code {
    pub const SUCCESS: Code = Code(0, "");

    /// The code as a result.
    pub fn called(self) -> Called {
        if self.0 == 0 { Ok(()) } else { Err(self) }
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Code) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Code").field(&self.0).finish()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: error {}", self.1, self.0)
    }
}

impl std::error::Error for Code {}

/// An address or a handle, as a number.
pub trait At {
    fn at(self) -> usize;
}

impl At for usize {
    fn at(self) -> usize {
        self
    }
}

impl<T> At for *mut T {
    fn at(self) -> usize {
        self as usize
    }
}

impl<T> At for *const T {
    fn at(self) -> usize {
        self as usize
    }
}

/// A `cudaMemLocation`; an ordinal in the functions of versions before 13.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub kind: u32,
    pub id: i32,
}

impl Place {
    pub const HOST: Place = Place { kind: 2, id: 0 };

    pub const fn device(id: i32) -> Place {
        Place { kind: 1, id }
    }

    pub const fn numa(id: i32) -> Place {
        Place { kind: 3, id }
    }

    pub fn to_sys(self) -> sys::cudaMemLocation {
        sys::cudaMemLocation {
            type_: sys::cudaMemLocationType(self.kind),
            id: self.id,
        }
    }

    fn to_ordinal(self) -> i32 {
        match self {
            Place { kind: 1, id } => id,
            _ => sys::cudaCpuDeviceId,
        }
    }
}

/// The form of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

impl Shape {
    /// Blocks and threads of one dimension.
    pub const fn of(blocks: u32, threads: u32) -> Shape {
        Shape {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
        }
    }

    /// One thread for each element.
    pub fn linear(count: usize) -> Shape {
        Shape::of((count as u32).div_ceil(256).max(1), 256)
    }
}

/// A copy of a text of CUDA.
///
/// # Safety
/// Null, or a NUL-terminated text.
pub unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "(null)".to_owned();
    }
    // SAFETY: required of the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_string_lossy().into_owned()
}

/// Rows of a method: its name, its arguments, its result and the places for it, the call, and the value. `late` and `late_driver` are
/// functions that a version may lack: the method then panics.
macro_rules! methods {
    ($($name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $of:ty [$($place:ident = $first:expr),*])?:
        $table:ident.$function:ident($($given:expr),*) $(=> $value:expr)?;)*) => { $(
        #[doc = concat!("`", stringify!($function), "`")]
        #[inline]
        fn $name(&self, $($argument: $kind),*) -> Called<methods!(@of $($of)?)> {
            $($(let mut $place = $first;)*)?
            let function = methods!(@function $table, self, $function);
            Code(call!(function($($given),*)).0, stringify!($function)).called()?;
            Ok(methods!(@value $($value)?))
        }
    )* };
    (@of) => { () };
    (@of $of:ty) => { $of };
    (@value) => { () };
    (@value $value:expr) => { $value };
    (@function table, $self:ident, $function:ident) => { $self.table().$function };
    (@function driver, $self:ident, $function:ident) => { $self.driver().$function };
    (@function late, $self:ident, $function:ident) => { there($self.table().$function, stringify!($function)) };
    (@function late_driver, $self:ident, $function:ident) => { there($self.driver().$function, stringify!($function)) };
}

/// A function that a version may lack.
///
/// # Panics
/// This version lacks it.
pub fn there<F>(function: Option<F>, name: &str) -> F {
    function.unwrap_or_else(|| panic!("there is no {name}"))
}

/// The functions of a table.
pub trait Calls {
    fn table(&self) -> &Table;

    /// The functions of the driver.
    fn driver(&self) -> &DriverTable {
        self.table().driver().expect("no driver")
    }

    methods! {
        runtime_version() -> i32 [v = -1]: table.cudaRuntimeGetVersion(&mut v) => v;
        driver_version() -> i32 [v = -1]: table.cudaDriverGetVersion(&mut v) => v;
        device_count() -> i32 [v = -1]: table.cudaGetDeviceCount(&mut v) => v;
        current_device() -> i32 [v = -1]: table.cudaGetDevice(&mut v) => v;
        set_device(device: i32): table.cudaSetDevice(device);
        device_attribute(which: u32, device: i32) -> i32 [v = i32::MIN]:
            table.cudaDeviceGetAttribute(&mut v, sys::cudaDeviceAttr(which), device) => v;
        memory_info() -> (usize, usize) [free = 0, total = 0]: table.cudaMemGetInfo(&mut free, &mut total) => (free, total);
        can_access_peer(device: i32, peer: i32) -> i32 [v = -1]: table.cudaDeviceCanAccessPeer(&mut v, device, peer) => v;
        peer_attribute(which: u32, from: i32, to: i32) -> i32 [v = i32::MIN]:
            late.cudaDeviceGetP2PAttribute(&mut v, sys::cudaDeviceP2PAttr(which), from, to) => v;
        enable_peer(peer: i32, flags: u32): table.cudaDeviceEnablePeerAccess(peer, flags);
        disable_peer(peer: i32): table.cudaDeviceDisablePeerAccess(peer);
        synchronize(): table.cudaDeviceSynchronize();
        priority_range() -> (i32, i32) [least = i32::MIN, greatest = i32::MIN]:
            table.cudaDeviceGetStreamPriorityRange(&mut least, &mut greatest) => (least, greatest);

        malloc(bytes: usize) -> usize [p = null_mut()]: table.cudaMalloc(&mut p, bytes) => p as usize;
        malloc_managed(bytes: usize, flags: u32) -> usize [p = null_mut()]:
            table.cudaMallocManaged(&mut p, bytes, flags) => p as usize;
        host_alloc(bytes: usize, flags: u32) -> usize [p = null_mut()]: table.cudaHostAlloc(&mut p, bytes, flags) => p as usize;
        free(at: impl At): table.cudaFree(at.at() as _);
        free_host(at: impl At): table.cudaFreeHost(at.at() as _);
        host_register(at: impl At, bytes: usize, flags: u32): table.cudaHostRegister(at.at() as _, bytes, flags);
        host_unregister(at: impl At): table.cudaHostUnregister(at.at() as _);
        host_device_pointer(at: impl At, flags: u32) -> usize [p = null_mut()]:
            table.cudaHostGetDevicePointer(&mut p, at.at() as _, flags) => p as usize;
        pointer(at: impl At) -> sys::cudaPointerAttributes [found = sys::PointerAttributes::default()]:
            table.cudaPointerGetAttributes(&mut found.fields, at.at() as _) => found.fields;
        // Of an attribute of 8 bytes.
        pointer_attribute(which: sys::CUpointer_attribute_enum, at: impl At) -> usize [v = 0usize]:
            driver.cuPointerGetAttribute((&raw mut v).cast(), which, at.at() as _) => v;
        attach(stream: impl At, at: impl At, flags: u32): table.cudaStreamAttachMemAsync(stream.at() as _, at.at() as _, 0, flags);

        memcpy(to: impl At, from: impl At, bytes: usize, kind: u32):
            table.cudaMemcpy(to.at() as _, from.at() as _, bytes, sys::cudaMemcpyKind(kind));
        memcpy_async(to: impl At, from: impl At, bytes: usize, kind: u32, stream: impl At):
            table.cudaMemcpyAsync(to.at() as _, from.at() as _, bytes, sys::cudaMemcpyKind(kind), stream.at() as _);
        memcpy_peer(to: impl At, to_device: i32, from: impl At, from_device: i32, bytes: usize):
            table.cudaMemcpyPeer(to.at() as _, to_device, from.at() as _, from_device, bytes);
        memcpy_peer_async(to: impl At, to_device: i32, from: impl At, from_device: i32, bytes: usize, stream: impl At):
            table.cudaMemcpyPeerAsync(to.at() as _, to_device, from.at() as _, from_device, bytes, stream.at() as _);
        memset(at: impl At, value: i32, bytes: usize): table.cudaMemset(at.at() as _, value, bytes);
        memset_async(at: impl At, value: i32, bytes: usize, stream: impl At):
            table.cudaMemsetAsync(at.at() as _, value, bytes, stream.at() as _);
        memset_8(at: impl At, value: u8, count: usize, stream: impl At):
            driver.cuMemsetD8Async(at.at() as _, value, count, stream.at() as _);
        memset_16(at: impl At, value: u16, count: usize, stream: impl At):
            driver.cuMemsetD16Async(at.at() as _, value, count, stream.at() as _);
        memset_32(at: impl At, value: u32, count: usize, stream: impl At):
            driver.cuMemsetD32Async(at.at() as _, value, count, stream.at() as _);
        write_value(stream: impl At, at: impl At, value: u32):
            late_driver.cuStreamWriteValue32(stream.at() as _, at.at() as _, value, 0);

        prefetch_flagged(range: Range<usize>, to: Place, flags: u32, stream: impl At):
            late.cudaMemPrefetchAsync_v13(range.start as _, range.len(), to.to_sys(), flags, stream.at() as _);
        prefetch_v11(range: Range<usize>, to: Place, stream: impl At):
            late.cudaMemPrefetchAsync_v11(range.start as _, range.len(), to.to_ordinal(), stream.at() as _);
        advise_v13(range: Range<usize>, advice: u32, place: Place):
            late.cudaMemAdvise_v13(range.start as _, range.len(), sys::cudaMemoryAdvise(advice), place.to_sys());
        advise_v11(range: Range<usize>, advice: u32, place: Place):
            late.cudaMemAdvise_v11(range.start as _, range.len(), sys::cudaMemoryAdvise(advice), place.to_ordinal());
        range_attribute_at(to: *mut c_void, bytes: usize, which: u32, range: Range<usize>):
            table.cudaMemRangeGetAttribute(to, bytes, sys::cudaMemRangeAttribute(which), range.start as _, range.len());
        range_attributes_at(to: &mut [*mut c_void], sizes: &mut [usize], which: &mut [sys::cudaMemRangeAttribute], range: Range<usize>):
            table.cudaMemRangeGetAttributes(
                to.as_mut_ptr(), sizes.as_mut_ptr(), which.as_mut_ptr(), which.len(), range.start as _, range.len());
        prefetch_of(
            starts: &mut [*mut c_void], sizes: &mut [usize],
            places: &mut [sys::cudaMemLocation], from: &mut [usize], flags: u64, stream: impl At):
            late.cudaMemPrefetchBatchAsync(
                starts.as_mut_ptr(), sizes.as_mut_ptr(), sizes.len(), places.as_mut_ptr(), from.as_mut_ptr(), from.len(), flags, stream.at() as _);
        discard_and_prefetch_of(
            starts: &mut [*mut c_void], sizes: &mut [usize],
            places: &mut [sys::cudaMemLocation], from: &mut [usize], flags: u64, stream: impl At):
            late.cudaMemDiscardAndPrefetchBatchAsync(
                starts.as_mut_ptr(), sizes.as_mut_ptr(), sizes.len(), places.as_mut_ptr(), from.as_mut_ptr(), from.len(), flags, stream.at() as _);
        discard_of(starts: &mut [*mut c_void], sizes: &mut [usize], flags: u64, stream: impl At):
            late.cudaMemDiscardBatchAsync(starts.as_mut_ptr(), sizes.as_mut_ptr(), sizes.len(), flags, stream.at() as _);
        location(range: Range<usize>) -> Place [found = Place { kind: 99, id: 99 }.to_sys()]:
            late.cudaMemGetLocationInfo(range.start as _, range.len(), range.len(), 0, &mut found) => Place { kind: found.type_.0, id: found.id };

        stream_create(flags: u32) -> usize [s = null_mut()]: table.cudaStreamCreateWithFlags(&mut s, flags) => s as usize;
        stream_create_with_priority(flags: u32, priority: i32) -> usize [s = null_mut()]:
            table.cudaStreamCreateWithPriority(&mut s, flags, priority) => s as usize;
        stream_destroy(stream: impl At): table.cudaStreamDestroy(stream.at() as _);
        stream_synchronize(stream: impl At): table.cudaStreamSynchronize(stream.at() as _);
        stream_query(stream: impl At): table.cudaStreamQuery(stream.at() as _);
        stream_wait(stream: impl At, event: impl At, flags: u32): table.cudaStreamWaitEvent(stream.at() as _, event.at() as _, flags);
        stream_device(stream: impl At) -> i32 [v = -1]: late.cudaStreamGetDevice(stream.at() as _, &mut v) => v;
        launch_host_function(stream: impl At, function: unsafe extern "C" fn(*mut c_void), data: impl At):
            table.cudaLaunchHostFunc(stream.at() as _, Some(function), data.at() as _);

        event_create(flags: u32) -> usize [e = null_mut()]: table.cudaEventCreateWithFlags(&mut e, flags) => e as usize;
        event_destroy(event: impl At): table.cudaEventDestroy(event.at() as _);
        event_record(event: impl At, stream: impl At): table.cudaEventRecord(event.at() as _, stream.at() as _);
        event_record_with_flags(event: impl At, stream: impl At, flags: u32):
            late.cudaEventRecordWithFlags(event.at() as _, stream.at() as _, flags);
        event_query(event: impl At): table.cudaEventQuery(event.at() as _);
        event_synchronize(event: impl At): table.cudaEventSynchronize(event.at() as _);
        event_elapsed(start: impl At, end: impl At) -> f32 [ms = f32::NAN]:
            table.cudaEventElapsedTime(&mut ms, start.at() as _, end.at() as _) => ms;

        pool_create(properties: &sys::cudaMemPoolProps) -> usize [p = null_mut()]: table.cudaMemPoolCreate(&mut p, properties) => p as usize;
        pool_destroy(pool: impl At): table.cudaMemPoolDestroy(pool.at() as _);
        pool_trim(pool: impl At, keep: usize): table.cudaMemPoolTrimTo(pool.at() as _, keep);
        pool_get(pool: impl At, which: sys::cudaMemPoolAttr) -> u64 [v = u64::MAX - 1]:
            table.cudaMemPoolGetAttribute(pool.at() as _, which, (&raw mut v).cast()) => v;
        pool_set(pool: impl At, which: sys::cudaMemPoolAttr, value: u64):
            table.cudaMemPoolSetAttribute(pool.at() as _, which, (&raw const value).cast_mut().cast());
        pool_set_access(pool: impl At, access: &sys::cudaMemAccessDesc): table.cudaMemPoolSetAccess(pool.at() as _, access, 1);
        default_pool(device: i32) -> usize [p = null_mut()]: table.cudaDeviceGetDefaultMemPool(&mut p, device) => p as usize;
        current_pool(device: i32) -> usize [p = null_mut()]: table.cudaDeviceGetMemPool(&mut p, device) => p as usize;
        set_current_pool(device: i32, pool: impl At): table.cudaDeviceSetMemPool(device, pool.at() as _);
        malloc_in_order(bytes: usize, stream: impl At) -> usize [p = null_mut()]:
            table.cudaMallocAsync(&mut p, bytes, stream.at() as _) => p as usize;
        malloc_of_pool(bytes: usize, pool: impl At, stream: impl At) -> usize [p = null_mut()]:
            table.cudaMallocFromPoolAsync(&mut p, bytes, pool.at() as _, stream.at() as _) => p as usize;
        free_async(at: impl At, stream: impl At): table.cudaFreeAsync(at.at() as _, stream.at() as _);

        begin_capture(stream: impl At, mode: u32): late.cudaStreamBeginCapture(stream.at() as _, sys::cudaStreamCaptureMode(mode));
        end_capture(stream: impl At) -> usize [graph = null_mut()]:
            late.cudaStreamEndCapture(stream.at() as _, &mut graph) => graph as usize;
        capture_status(stream: impl At) -> u32 [status = sys::cudaStreamCaptureStatus(u32::MAX)]:
            late.cudaStreamIsCapturing(stream.at() as _, &mut status) => status.0;
        exchange_mode(mode: u32) -> u32 [mode = sys::cudaStreamCaptureMode(mode)]:
            late.cudaThreadExchangeStreamCaptureMode(&mut mode) => mode.0;
        graph_destroy(graph: impl At): late.cudaGraphDestroy(graph.at() as _);
        // Places for as many nodes as the count says.
        graph_nodes(graph: impl At, nodes: *mut usize, count: usize) -> usize [count = count]:
            late.cudaGraphGetNodes(graph.at() as _, nodes.cast(), &mut count) => count;
        node_type(node: usize) -> u32 [kind = sys::cudaGraphNodeType(u32::MAX)]: late.cudaGraphNodeGetType(node as _, &mut kind) => kind.0;
        instantiate(graph: impl At) -> usize [exec = null_mut()]:
            late.cudaGraphInstantiateWithFlags(&mut exec, graph.at() as _, 0) => exec as usize;
        graph_launch(exec: impl At, stream: impl At): late.cudaGraphLaunch(exec.at() as _, stream.at() as _);
        exec_destroy(exec: impl At): late.cudaGraphExecDestroy(exec.at() as _);
        exec_set_memset(exec: impl At, node: usize, params: &sys::cudaMemsetParams):
            late.cudaGraphExecMemsetNodeSetParams(exec.at() as _, node as _, params);
        exec_set_memcpy(exec: impl At, node: usize, to: impl At, from: impl At, bytes: usize, kind: u32):
            late.cudaGraphExecMemcpyNodeSetParams1D(
                exec.at() as _, node as _, to.at() as _, from.at() as _, bytes, sys::cudaMemcpyKind(kind));
        exec_set_kernel(exec: impl At, node: usize, params: &sys::CUDA_KERNEL_NODE_PARAMS):
            late_driver.cuGraphExecKernelNodeSetParams(exec.at() as _, node as _, params);
        condition_create(graph: usize) -> u64 [handle = 0]: late.cudaGraphConditionalHandleCreate(&mut handle, graph as _, 0, 0) => handle;
        node_add(graph: usize, after: &[usize], params: *mut c_void) -> usize [node = null_mut()]:
            late.cudaGraphAddNode_v13(&mut node, graph as _, after.as_ptr().cast(), null(), after.len(), params.cast()) => node as usize;
        set_dependency(stream: impl At, node: usize) -> () [node = node as sys::cudaGraphNode_t]:
            late.cudaStreamUpdateCaptureDependencies_v13(stream.at() as _, &mut node, null(), 1, 1);
        begin_capture_to(stream: impl At, graph: usize, mode: u32):
            late.cudaStreamBeginCaptureToGraph(stream.at() as _, graph as _, null(), null(), 0, sys::cudaStreamCaptureMode(mode));

        driver_device(ordinal: i32) -> i32 [device = -1]: driver.cuDeviceGet(&mut device, ordinal) => device;
        module_load(image: &CStr) -> usize [m = null_mut()]: driver.cuModuleLoadData(&mut m, image.as_ptr().cast()) => m as usize;
        module_unload(module: impl At): driver.cuModuleUnload(module.at() as _);
        module_function(module: impl At, name: &CStr) -> usize [f = null_mut()]:
            driver.cuModuleGetFunction(&mut f, module.at() as _, name.as_ptr()) => f as usize;
        function_attribute(function: impl At, which: u32) -> i32 [v = -1]:
            driver.cuFuncGetAttribute(&mut v, sys::CUfunction_attribute(which), function.at() as _) => v;
        set_function_attribute(function: impl At, which: u32, value: i32):
            driver.cuFuncSetAttribute(function.at() as _, sys::CUfunction_attribute(which), value);
        function_parameter(function: impl At, index: usize) -> (usize, usize) [offset = 0, bytes = 0]:
            late_driver.cuFuncGetParamInfo(function.at() as _, index, &mut offset, &mut bytes) => (offset, bytes);
        blocks_of(function: impl At, threads: i32, shared_bytes: usize) -> i32 [blocks = -1]:
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function.at() as _, threads, shared_bytes) => blocks;
        // With a pointer to each argument.
        launch(kernel: impl At, shape: Shape, stream: impl At, arguments: impl AsRef<[*const c_void]>):
            driver.cuLaunchKernel(
                kernel.at() as _, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1], shape.block[2],
                shape.shared_bytes, stream.at() as _, arguments.as_ref().as_ptr().cast_mut().cast(), null_mut());
    }

    /// `cudaMemPrefetchAsync` with the signature of the version.
    #[inline]
    fn prefetch_range(&self, range: Range<usize>, to: Place, stream: impl At) -> Called {
        match self.table().cudaMemPrefetchAsync_v13 {
            Some(_) => self.prefetch_flagged(range, to, 0, stream),
            None => self.prefetch_v11(range, to, stream),
        }
    }

    /// `cudaMemAdvise` with the signature of the version.
    fn advise_range(&self, range: Range<usize>, advice: u32, place: Place) -> Called {
        match self.table().cudaMemAdvise_v13 {
            Some(_) => self.advise_v13(range, advice, place),
            None => self.advise_v11(range, advice, place),
        }
    }

    /// `cudaMemPrefetchBatchAsync`, or with `discard` the discarding variant. Each place is valid from its index on.
    fn prefetch_batch(
        &self,
        ranges: &[Range<usize>],
        places: &[(Place, usize)],
        discard: bool,
        flags: u64,
        stream: impl At,
    ) -> Called {
        let (mut starts, mut sizes) = arrays(ranges);
        let mut locations: Vec<_> = places.iter().map(|(place, _)| place.to_sys()).collect();
        let mut indices: Vec<_> = places.iter().map(|(_, index)| *index).collect();
        let (starts, sizes) = (&mut starts[..], &mut sizes[..]);
        let (places, indices) = (&mut locations[..], &mut indices[..]);
        match discard {
            false => self.prefetch_of(starts, sizes, places, indices, flags, stream),
            true => self.discard_and_prefetch_of(starts, sizes, places, indices, flags, stream),
        }
    }

    /// `cudaMemDiscardBatchAsync`
    fn discard_batch(&self, ranges: &[Range<usize>], flags: u64, stream: impl At) -> Called {
        let (mut starts, mut sizes) = arrays(ranges);
        self.discard_of(&mut starts, &mut sizes, flags, stream)
    }

    /// `cudaGetLastError`
    fn forget_error(&self) -> Code {
        Code(
            call!(self.table(), cudaGetLastError()).0,
            "cudaGetLastError",
        )
    }

    /// `cudaGetErrorName`
    fn name_of(&self, code: u32) -> String {
        let name = call!(self.table(), cudaGetErrorName(sys::cudaError(code)));
        // SAFETY: a static text, for any number.
        unsafe { text(name) }
    }

    /// `cuDeviceGetName` of the device with this ordinal.
    fn device_name(&self, ordinal: i32) -> Called<String> {
        let (device, mut name) = (self.driver_device(ordinal)?, [0; 256]);
        let get = self.driver().cuDeviceGetName;
        Code(
            call!(get(name.as_mut_ptr(), 255, device)).0,
            "cuDeviceGetName",
        )
        .called()?;
        // SAFETY: the last byte stays 0.
        Ok(unsafe { text(name.as_ptr()) })
    }
}

impl Calls for Table {
    fn table(&self) -> &Table {
        self
    }
}

fn arrays(ranges: &[Range<usize>]) -> (Vec<*mut c_void>, Vec<usize>) {
    let starts = ranges.iter().map(|range| range.start as *mut c_void);
    (starts.collect(), ranges.iter().map(Range::len).collect())
}
