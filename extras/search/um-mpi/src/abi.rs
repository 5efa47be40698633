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
/// The longest text that a function writes: that of `MPI_Get_library_version`.
pub(crate) const MAX_LIBRARY_VERSION_STRING: usize = 8192;

type Text = *mut c_char;
type Int = *mut c_int;

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ident: $type:ty),*);)*) => {
        /// The functions of the library that are used, and for each a method that checks the code it returns.
        #[derive(Clone, Copy)]
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        #[allow(dead_code, reason = "the functions that describe an error have a method, too")]
        #[allow(clippy::too_many_arguments, reason = "those of MPI")]
        impl Functions {
            $(
                /// # Safety
                /// What the standard asks for, with addresses that are valid until the end of the operation.
                pub(crate) unsafe fn $field(&self, $($argument: $type),*) -> Result<(), MpiError> {
                    // SAFETY: required of the caller.
                    self.check($name, unsafe { (self.$field)($($argument),*) })
                }
            )*

            /// Looks up all functions. The error is the name of one that the library lacks.
            ///
            /// # Safety
            /// The library implements version 1 of the ABI of MPI, and stays open.
            pub(crate) unsafe fn load(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: a library with the ABI has the function with this signature; the caller guarantees the ABI.
                    $($field: *unsafe { library.get($name) }.map_err(|_| $name)?,)*
                })
            }
        }
    };
}

functions! {
    initialized = "MPI_Initialized"(answer: Int);
    init_thread = "MPI_Init_thread"(argc: Int, argv: *mut *mut Text, required: c_int, provided: Int);
    finalize = "MPI_Finalize"();
    abort = "MPI_Abort"(of: Handle, code: c_int);
    error_class = "MPI_Error_class"(code: c_int, class: Int);
    error_string = "MPI_Error_string"(code: c_int, text: Text, len: Int);
    get_processor_name = "MPI_Get_processor_name"(text: Text, len: Int);
    comm_rank = "MPI_Comm_rank"(of: Handle, rank: Int);
    comm_size = "MPI_Comm_size"(of: Handle, size: Int);
    comm_dup = "MPI_Comm_dup"(of: Handle, new: *mut Handle);
    comm_split_type = "MPI_Comm_split_type"(of: Handle, split: c_int, key: c_int, info: Handle, new: *mut Handle);
    comm_set_errhandler = "MPI_Comm_set_errhandler"(of: Handle, handler: Handle);
    iallgather = "MPI_Iallgather"(
        from: *const c_void, count: c_int, sent: Handle, to: *mut c_void, each: c_int, received: Handle, of: Handle, request: *mut Handle
    );
    // With a count of 64 bits.
    ibcast_c = "MPI_Ibcast_c"(buffer: *mut c_void, count: i64, sent: Handle, root: c_int, of: Handle, request: *mut Handle);
    test = "MPI_Test"(request: *mut Handle, done: Int, status: *mut c_void);
}
