//! Streams, memory and work of other libraries: imports, exports, and the errors of wrong uses.
#![allow(unsafe_code, reason = "plays the other library")]

mod exports;
mod memory;
mod owners;
mod pool;
mod streams;
mod work;

use cuda_um::{Stream, sys};
use cuda_um_sim::Sim;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An owner that counts its drops.
struct Owner(Arc<AtomicUsize>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// An owner, and the number of its drops.
fn owner() -> (Owner, impl Fn() -> usize) {
    let drops = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&drops);
    (Owner(drops), move || count.load(Ordering::Acquire))
}

/// An owner whose drop panics, after it has counted.
struct Bomb(#[allow(dead_code, reason = "it counts when it is dropped")] Owner);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("an owner's drop");
    }
}

fn at<T>(address: *const T) -> NonNull<T> {
    NonNull::new(address.cast_mut()).unwrap()
}

/// A fill by "another library".
fn their_fill(sim: &Sim, stream: &Stream, address: *mut u8, bytes: usize, value: u8) {
    let fill = sim.table().cudaMemsetAsync;
    // SAFETY: the address is valid for as many bytes.
    let code = unsafe { fill(address.cast(), value.into(), bytes, stream.as_raw()) };
    assert_eq!(code, sys::cudaError::cudaSuccess);
}
