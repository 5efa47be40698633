//! The ABI of MPI 5: types, constants and functions, as in the header of the [MPI Forum](https://github.com/mpi-forum/mpi-abi-stubs).
//!
//! Every handle is a pointer with a fixed small value, so the library only has to provide functions.
#![allow(unsafe_code, reason = "types of C functions")]

use crate::MpiError;
use libloading::os::unix::Library;
use std::ffi::{c_char, c_int, c_void};

/// The version of the ABI that this file describes.
pub(crate) const ABI_MAJOR: c_int = 1;

/// A handle: in C a pointer to an incomplete type.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) usize);

pub(crate) const COMM_NULL: Handle = Handle(0x100);
pub(crate) const COMM_WORLD: Handle = Handle(0x101);
pub(crate) const COMM_SELF: Handle = Handle(0x102);
pub(crate) const INFO_NULL: Handle = Handle(0x130);
pub(crate) const ERRORS_RETURN: Handle = Handle(0x143);
pub(crate) const REQUEST_NULL: Handle = Handle(0x180);
pub(crate) const BYTE: Handle = Handle(0x247);

/// The address that stands for "the data is in the receive buffer".
pub(crate) const IN_PLACE: *const c_void = std::ptr::without_provenance(1);
/// The address that stands for "no status is wanted".
pub(crate) const STATUS_IGNORE: *mut c_void = std::ptr::null_mut();

pub(crate) const THREAD_MULTIPLE: c_int = 4096;
pub(crate) const COMM_TYPE_SHARED: c_int = 221;
pub(crate) const MAX_ERROR_STRING: usize = 512;
pub(crate) const MAX_LIBRARY_VERSION_STRING: usize = 8192;
pub(crate) const MAX_PROCESSOR_NAME: usize = 256;

type Text = *mut c_char;
type Int = *mut c_int;
type Count = i64;
type Aint = isize;

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// The functions of the library that are used.
        #[derive(Clone, Copy)]
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// Looks up all functions; `path` is for errors.
            ///
            /// # Safety
            /// The library implements version 1 of the ABI of MPI, and stays open.
            pub(crate) unsafe fn load(library: &Library, path: &str) -> Result<Self, MpiError> {
                Ok(Self {
                    $($field: {
                        // SAFETY: a library with the ABI has the function with this signature; the caller guarantees the ABI.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($name) };
                        *found.map_err(|_| MpiError::MissingFunction {
                            library: path.to_owned(),
                            function: $name,
                        })?
                    },)*
                })
            }
        }
    };
}

functions! {
    initialized = "MPI_Initialized"(Int);
    finalized = "MPI_Finalized"(Int);
    init_thread = "MPI_Init_thread"(Int, *mut *mut Text, c_int, Int);
    finalize = "MPI_Finalize"();
    abort = "MPI_Abort"(Handle, c_int);
    error_class = "MPI_Error_class"(c_int, Int);
    error_string = "MPI_Error_string"(c_int, Text, Int);
    get_processor_name = "MPI_Get_processor_name"(Text, Int);
    comm_rank = "MPI_Comm_rank"(Handle, Int);
    comm_size = "MPI_Comm_size"(Handle, Int);
    comm_dup = "MPI_Comm_dup"(Handle, *mut Handle);
    comm_split_type = "MPI_Comm_split_type"(Handle, c_int, c_int, Handle, *mut Handle);
    comm_set_errhandler = "MPI_Comm_set_errhandler"(Handle, Handle);
    comm_free = "MPI_Comm_free"(*mut Handle);
    iallgather = "MPI_Iallgather"(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle, *mut Handle);
    // Counts of 64 bits: more than 2 GiB in one call.
    iallgatherv_c = "MPI_Iallgatherv_c"(*const c_void, Count, Handle, *mut c_void, *const Count, *const Aint, Handle, Handle, *mut Handle);
    ibcast_c = "MPI_Ibcast_c"(*mut c_void, Count, Handle, c_int, Handle, *mut Handle);
    test = "MPI_Test"(*mut Handle, Int, *mut c_void);
}

/// `MPI_Abi_get_version`, which is called before the others are looked up.
pub(crate) type AbiGetVersion = unsafe extern "C" fn(Int, Int) -> c_int;
/// `MPI_Get_library_version`, which libraries without the ABI have too.
pub(crate) type GetLibraryVersion = unsafe extern "C" fn(Text, Int) -> c_int;
