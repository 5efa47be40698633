//! System calls that read or write the program's memory, with managed memory.
//!
//! The kernel does not raise `SIGSEGV` for a page that a system call cannot access: the call fails with `EFAULT`. Therefore this module
//! defines the functions of libc for these calls. The linker takes them instead of libc's for the whole program. Each function first
//! touches the managed pages as host code would ([`host_memory`]), then makes the system call through the device view, which is always
//! accessible. Other memory is passed on unchanged; finding that out takes two loads.
//!
//! Only code that is linked into the same executable and calls libc's public functions gets here: Rust's standard library does, but
//! libc's own `fread` does not.
// System calls get raw addresses, and the functions have the names of libc's.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_void};

use libc::{iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};

use crate::host_fault::host_memory;

/// The call stores into the program's memory.
const STORES: bool = true;
/// The call loads from the program's memory.
const LOADS: bool = false;

/// Makes a system call.
macro_rules! system_call {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        // SAFETY: the arguments are those of the caller, who keeps the contract of the call. A translated address is that of the same
        // bytes.
        unsafe { libc::syscall(libc::$number, $($argument as c_long),*) as ssize_t }
    };
}

/// Defines a function that gets one range of memory.
macro_rules! with_buffer {
    ($($name:ident = $number:ident, $write:ident, ($($more:ident: $type:ty),*) $($fixed:expr),*;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(file: c_int, at: *mut c_void, bytes: size_t $(, $more: $type)*) -> ssize_t {
            let at = host_memory(at as usize, bytes, $write);
            system_call!($number, file, at, bytes $(, $more)* $(, $fixed)*)
        }
    )*};
}

/// Defines a function that gets several ranges of memory.
macro_rules! with_ranges {
    ($($name:ident = $number:ident, $write:ident, ($($more:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(file: c_int, ranges: *const iovec, count: c_int $(, $more: $type)*) -> ssize_t {
            // SAFETY: the caller guarantees that there are so many ranges.
            let moved = unsafe { host_ranges(ranges, count as usize, $write) };
            let ranges = moved.as_ref().map_or(ranges, |moved| moved.as_ptr());
            // The high half of an offset is 0: the low half has 64 bits.
            system_call!($number, file, ranges, count $(, $more)*, 0)
        }
    )*};
}

with_buffer! {
    read = SYS_read, STORES, ();
    write = SYS_write, LOADS, ();
    pread = SYS_pread64, STORES, (offset: off_t);
    pread64 = SYS_pread64, STORES, (offset: off_t);
    pwrite = SYS_pwrite64, LOADS, (offset: off_t);
    pwrite64 = SYS_pwrite64, LOADS, (offset: off_t);
    recv = SYS_recvfrom, STORES, (flags: c_int) 0, 0;
    recvfrom = SYS_recvfrom, STORES, (flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t);
    send = SYS_sendto, LOADS, (flags: c_int) 0, 0;
    sendto = SYS_sendto, LOADS, (flags: c_int, to: *const sockaddr, to_len: socklen_t);
}

with_ranges! {
    readv = SYS_readv, STORES, ();
    writev = SYS_writev, LOADS, ();
    preadv = SYS_preadv, STORES, (offset: off_t);
    preadv64 = SYS_preadv, STORES, (offset: off_t);
    pwritev = SYS_pwritev, LOADS, (offset: off_t);
    pwritev64 = SYS_pwritev, LOADS, (offset: off_t);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller guarantees that the message is valid.
    let message = unsafe { &mut *message };
    let ranges = message.msg_iov;
    // SAFETY: as above.
    let moved = unsafe { host_ranges(ranges, message.msg_iovlen as _, STORES) };
    if let Some(moved) = &moved {
        message.msg_iov = moved.as_ptr().cast_mut();
    }
    let received = system_call!(SYS_recvmsg, socket, &raw mut *message, flags);
    message.msg_iov = ranges;
    received
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller guarantees that the message is valid, and its ranges are.
    let (mut copy, moved) = unsafe {
        let copy = *message;
        (copy, host_ranges(copy.msg_iov, copy.msg_iovlen as _, LOADS))
    };
    if let Some(moved) = &moved {
        copy.msg_iov = moved.as_ptr().cast_mut();
    }
    system_call!(SYS_sendmsg, socket, &raw const copy, flags)
}

/// The ranges as the system call gets them; `None` if that is unchanged.
///
/// # Safety
///
/// `ranges` points at `count` ranges.
unsafe fn host_ranges(ranges: *const iovec, count: usize, write: bool) -> Option<Vec<iovec>> {
    // The kernel refuses other counts.
    if ranges.is_null() || count > libc::UIO_MAXIOV as usize {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    let ranges = unsafe { std::slice::from_raw_parts(ranges, count) };
    let mut moved = None::<Vec<iovec>>;
    for (index, range) in ranges.iter().enumerate() {
        let at = host_memory(range.iov_base as usize, range.iov_len, write);
        if at != range.iov_base as usize {
            moved.get_or_insert_with(|| ranges.to_vec())[index].iov_base = at as *mut c_void;
        }
    }
    moved
}
