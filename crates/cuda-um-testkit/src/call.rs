//! Calls of the function table without a layer in between, for code that checks or measures CUDA itself.
//!
//! An address may be any number: CUDA refuses what it does not know. A caller passes places that are valid for the call, memory
//! and handles that live until the work is done, and arguments that match the kernel.
#![allow(
    unsafe_code,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "calls the C functions of the table"
)]

use cuda_um::sys;
use std::ffi::c_void;
use std::ops::Range;

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

/// `cudaMemPrefetchAsync` with the signature of the version.
pub fn prefetch(
    table: &sys::Table,
    range: Range<usize>,
    to: Place,
    stream: sys::cudaStream_t,
) -> sys::cudaError {
    let (start, bytes) = (range.start as *const c_void, range.len());
    match (
        table.cudaMemPrefetchAsync_v13,
        table.cudaMemPrefetchAsync_v11,
    ) {
        (Some(prefetch), _) => call!(prefetch(start, bytes, to.to_sys(), 0, stream)),
        (None, Some(prefetch)) => call!(prefetch(start, bytes, to.to_ordinal(), stream)),
        (None, None) => panic!("no cudaMemPrefetchAsync"),
    }
}

/// `cudaMemAdvise` with the signature of the version.
pub fn advise(
    table: &sys::Table,
    range: Range<usize>,
    advice: sys::cudaMemoryAdvise,
    place: Place,
) -> sys::cudaError {
    let (start, bytes) = (range.start as *const c_void, range.len());
    match (table.cudaMemAdvise_v13, table.cudaMemAdvise_v11) {
        (Some(advise), _) => call!(advise(start, bytes, advice, place.to_sys())),
        (None, Some(advise)) => call!(advise(start, bytes, advice, place.to_ordinal())),
        (None, None) => panic!("no cudaMemAdvise"),
    }
}

/// The result of `cudaGetDevice` on this thread; -1 if it fails.
pub fn current_device(table: &sys::Table) -> i32 {
    let mut ordinal = -1;
    match call!(table, cudaGetDevice(&mut ordinal)) {
        sys::cudaError::cudaSuccess => ordinal,
        _ => -1,
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
}

/// `cuLaunchKernel`, with a pointer to each argument.
pub fn launch<const N: usize>(
    driver: &sys::DriverTable,
    kernel: sys::CUfunction,
    shape: Shape,
    stream: sys::cudaStream_t,
    mut arguments: [*const c_void; N],
) -> sys::CUresult {
    let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
    let (bytes, stream) = (shape.shared_bytes, stream.cast());
    let (arguments, extra) = (arguments.as_mut_ptr().cast(), std::ptr::null_mut());
    let launch = driver.cuLaunchKernel;
    call!(launch(
        kernel, gx, gy, gz, bx, by, bz, bytes, stream, arguments, extra
    ))
}
