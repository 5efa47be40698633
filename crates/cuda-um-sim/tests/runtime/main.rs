//! The simulated runtime through its function table, as any program sees it.
#![allow(unsafe_code, reason = "the table is C")]

/// Calls a function that the table does not have, by its name; returns its code.
macro_rules! driver {
    ($cuda:expr, $name:ident($($argument:expr => $type:ty),* $(,)?)) => {{
        let address = $cuda.sim.symbol(stringify!($name));
        assert!(!address.is_null(), "{}", stringify!($name));
        // SAFETY: the types are those of CUDA's function of this name.
        let function: unsafe extern "C" fn($($type),*) -> u32 = unsafe { std::mem::transmute(address) };
        // SAFETY: pointers among the arguments are valid for the call, or meant to be refused.
        unsafe { function($($argument),*) }
    }};
}

/// Does so with a call that succeeds.
macro_rules! done {
    ($cuda:expr, $($call:tt)*) => {
        assert_eq!(driver!($cuda, $($call)*), 0)
    };
}

mod support;
mod texts;

mod parts;

mod advice;
mod clock;
mod copy;
mod device;
mod driver;
mod errors;
mod faults;
mod graphs;
mod images;
mod kernels;
mod lifetime;
mod memory;
mod misuse;
mod non_concurrent;
mod pools;
mod prefetch;
mod registered;
mod streams;
// The sanitizer of threads defines the same functions as the simulator.
#[cfg(not(thread_sanitizer))]
mod system_calls;
mod system_memory;
mod use_after_free;
mod versions;
