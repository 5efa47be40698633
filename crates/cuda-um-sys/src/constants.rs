//! Macros of the headers that bindgen cannot read because they contain casts.

#![allow(non_upper_case_globals, reason = "C names")]

use crate::cudaStream_t;
use core::ffi::c_int;

/// The CPU, in the place of a device ordinal.
pub const cudaCpuDeviceId: c_int = -1;

/// No device, as a value of range attributes.
pub const cudaInvalidDeviceId: c_int = -2;

/// The legacy default stream: it waits for all blocking streams of the device, and they wait for it.
pub const cudaStreamLegacy: cudaStream_t = core::ptr::without_provenance_mut(1);

/// The calling thread's default stream.
pub const cudaStreamPerThread: cudaStream_t = core::ptr::without_provenance_mut(2);
