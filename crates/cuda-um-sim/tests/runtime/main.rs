//! The simulated runtime through its function table, as any program sees it.
#![allow(unsafe_code, reason = "the table is C")]

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
