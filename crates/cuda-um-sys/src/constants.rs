//! Macros of the headers that bindgen cannot read, because they are casts.

#![allow(non_upper_case_globals, reason = "C names")]

use crate::cudaStream_t;
use core::ffi::c_int;

/// The CPU, where a device ordinal is asked for.
pub const cudaCpuDeviceId: c_int = -1;

/// No device, as range attributes say it.
pub const cudaInvalidDeviceId: c_int = -2;

/// The stream that waits for, and is waited for by, all blocking streams of the device.
pub const cudaStreamLegacy: cudaStream_t = core::ptr::without_provenance_mut(1);

/// The calling thread's default stream.
pub const cudaStreamPerThread: cudaStream_t = core::ptr::without_provenance_mut(2);
