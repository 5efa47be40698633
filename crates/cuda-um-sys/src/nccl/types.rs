//! NCCL's types and numbers, as declared in `nccl.h`: `tests/real_libraries.rs` compares them with NVIDIA's header.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "C names"
)]

use crate::optional::numbers;
use std::ffi::{c_char, c_int, c_void};

numbers! { NCCL_NUMBERS;
    /// The result of a function of NCCL. Version 2.24 added the last one.
    ncclResult_t {
        ncclSuccess = 0,
        ncclUnhandledCudaError = 1,
        ncclSystemError = 2,
        ncclInternalError = 3,
        ncclInvalidArgument = 4,
        ncclInvalidUsage = 5,
        ncclRemoteError = 6,
        ncclInProgress = 7,
        ncclTimeout = 8,
    }

    /// The type of elements.
    ncclDataType_t {
        ncclInt8 = 0,
        ncclUint8 = 1,
        ncclInt32 = 2,
        ncclUint32 = 3,
        ncclInt64 = 4,
        ncclUint64 = 5,
        ncclFloat16 = 6,
        ncclFloat32 = 7,
        ncclFloat64 = 8,
        ncclBfloat16 = 9,
    }

    /// The operation of a reduction.
    ncclRedOp_t {
        ncclSum = 0,
        ncclProd = 1,
        ncclMax = 2,
        ncclMin = 3,
        ncclAvg = 4,
    }
}

/// A communicator: an opaque address.
pub type ncclComm_t = *mut c_void;

/// What the ranks of a communicator need to find each other.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ncclUniqueId {
    pub internal: [u8; 128],
}

/// The value of a number of [`ncclConfig_t`] that NCCL chooses.
pub const NCCL_CONFIG_UNDEF_INT: c_int = c_int::MIN;

/// The configuration of a communicator in the layout of version 2.17: newer versions read `size` bytes of it and have defaults for fields that were
/// added after `version`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ncclConfig_t {
    pub size: usize,
    pub magic: u32,
    pub version: u32,
    /// 0: calls that would wait return [`ncclInProgress`](ncclResult_t::ncclInProgress).
    pub blocking: c_int,
    pub cgaClusterSize: c_int,
    pub minCTAs: c_int,
    pub maxCTAs: c_int,
    pub netName: *const c_char,
}

impl ncclConfig_t {
    /// All values are NCCL's choice: `NCCL_CONFIG_INITIALIZER` of version 2.17.
    pub const INITIALIZER: Self = Self {
        size: size_of::<Self>(),
        magic: 0xcafe_beef,
        version: 21_700,
        blocking: NCCL_CONFIG_UNDEF_INT,
        cgaClusterSize: NCCL_CONFIG_UNDEF_INT,
        minCTAs: NCCL_CONFIG_UNDEF_INT,
        maxCTAs: NCCL_CONFIG_UNDEF_INT,
        netName: std::ptr::null(),
    };
}
