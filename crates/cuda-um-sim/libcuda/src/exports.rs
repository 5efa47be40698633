//! The exported functions. Each one jumps to its target, so this file needs none of the signatures, of which some depend on the version.
#![allow(non_snake_case, non_camel_case_types, reason = "C names")]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::start::sim;

macro_rules! exports {
    ($($name:ident)*) => {
        #[repr(usize)]
        enum Index { $($name),* }

        /// The names of the exported functions.
        static NAMES: [&str; [$(Index::$name as usize),*].len()] = [$(stringify!($name)),*];

        /// The addresses to which they jump, in the same order. In the beginning that is the start of the simulator.
        static TARGETS: [AtomicPtr<c_void>; NAMES.len()] =
            [const { AtomicPtr::new(start as *mut c_void) }; NAMES.len()];

        $(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn $name() {
                naked_asm!(
                    "mov eax, {index}",
                    "jmp qword ptr [rip + {targets} + {index} * 8]",
                    index = const Index::$name as usize,
                    targets = sym TARGETS,
                )
            }
        )*
    };
}

/// Finds the targets, and goes on as the function whose index is in `eax`. The arguments, all of them integers, stay where they are.
#[unsafe(naked)]
extern "C" fn start() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        // The seventh aligns the stack, too.
        "push rax",
        "call {find_targets}",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "lea r11, [rip + {targets}]",
        "jmp qword ptr [r11 + rax * 8]",
        find_targets = sym find_targets,
        targets = sym TARGETS,
    )
}

/// Gives every exported function its target. Any thread may call it, any number of times.
extern "C" fn find_targets() {
    let sim = sim();
    for (name, target) in NAMES.iter().zip(&TARGETS) {
        let found = sim.map_or(std::ptr::null(), |sim| sim.symbol(name));
        let address = match (found.is_null(), sim) {
            (false, _) => found,
            (true, Some(_)) => not_supported as *const c_void,
            // These return a text.
            (true, None) if ["cudaGetErrorName", "cudaGetErrorString"].contains(name) => {
                no_text as *const c_void
            }
            (true, None) => not_started as *const c_void,
        };
        target.store(address.cast_mut(), Ordering::Release);
    }
}

/// `cudaErrorNotSupported`, which is also the number of `CUDA_ERROR_NOT_SUPPORTED`.
extern "C" fn not_supported() -> u32 {
    801
}

/// `cudaErrorInitializationError`, which is also the number of `CUDA_ERROR_NOT_INITIALIZED`.
extern "C" fn not_started() -> u32 {
    3
}

/// Registers a fat binary before `main`. It returns a handle and no code, so it cannot be one of the functions below.
#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterFatBinary(image: *const c_void) -> usize {
    let mut handle = 0;
    let found = sim().map_or(std::ptr::null(), |sim| {
        sim.symbol("cudaUmSimRegisterBinary")
    });
    if !found.is_null() {
        // SAFETY: the simulator's function of this name.
        let register: unsafe extern "C" fn(*mut usize, *const c_void) -> u32 =
            unsafe { std::mem::transmute(found) };
        // SAFETY: nvcc's code passes a fat binary that lives as long as the program.
        unsafe { register(&mut handle, image) };
    }
    handle
}

extern "C" fn no_text() -> *const c_char {
    const TEXT: &CStr = c"the simulator did not start: see standard error";
    TEXT.as_ptr()
}

include!(concat!(env!("OUT_DIR"), "/exports.rs"));
