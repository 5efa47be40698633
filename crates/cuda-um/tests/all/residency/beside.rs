//! A launch on another device while a prefetch is enqueued.
#![allow(unsafe_code, reason = "puts a function into the table of CUDA")]

use super::MIB;
use crate::views::double::Double;
use cuda_um::{DeviceBuffer, Location, UnifiedBuffer, sys};
use cuda_um_sim::CudaVersion;
use cuda_um_testkit::{calls, on, open_with, simulated_with};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};

type Prefetch = unsafe extern "C" fn(
    *const c_void,
    usize,
    sys::cudaMemLocation,
    u32,
    sys::cudaStream_t,
) -> sys::cudaError_t;

static REAL: OnceLock<Prefetch> = OnceLock::new();
/// What runs once, within the next prefetch.
static WITHIN: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

unsafe extern "C" fn prefetch(
    memory: *const c_void,
    bytes: usize,
    to: sys::cudaMemLocation,
    flags: u32,
    stream: sys::cudaStream_t,
) -> sys::cudaError_t {
    // SAFETY: guaranteed by the caller.
    let code = unsafe { REAL.get().unwrap()(memory, bytes, to, flags, stream) };
    let within = WITHIN.lock().unwrap().take();
    if let Some(within) = within {
        std::thread::spawn(within).join().unwrap();
    }
    code
}

#[test]
fn a_launch_on_another_device_within_a_prefetch_counts() {
    let (sim, ..) = simulated_with(|builder| builder.devices(2).cuda(CudaVersion::V13_0));
    let name = c"cudaMemPrefetchAsync";
    let real = sim.symbol(name.to_str().unwrap());
    // SAFETY: in CUDA 13.0 the function has this signature.
    REAL.get_or_init(|| unsafe { std::mem::transmute::<*const c_void, Prefetch>(real) });
    // SAFETY: the function calls the simulator's.
    let runtime = unsafe { open_with(&sim, name, prefetch as *const c_void) };
    let [(here, stream), (there, elsewhere)] = [0, 1].map(|ordinal| on(&runtime, ordinal));
    let buffer = Arc::new(UnifiedBuffer::<u32>::zeroed(&here, MIB).unwrap());
    buffer.prefetch_on(Location::Host, &stream).unwrap();
    here.synchronize().unwrap();
    let (double, lent, first) = (Double::load(&there), Arc::clone(&buffer), stream.clone());
    let mut out = DeviceBuffer::<u32>::zeroed(&there, MIB).unwrap();
    // The prefetch is over, and the pages go to the other device, before the call returns.
    *WITHIN.lock().unwrap() = Some(Box::new(move || {
        first.synchronize().unwrap();
        let arguments = (&*lent, &mut out, MIB as u32);
        double.launch(&elsewhere, MIB, arguments).unwrap();
        elsewhere.synchronize().unwrap();
    }));
    let before = calls(&sim, "cudaMemPrefetchAsync");
    for _ in 0..2 {
        buffer.prefetch_on(&here, &stream).unwrap();
    }
    let made = calls(&sim, "cudaMemPrefetchAsync") - before;
    here.synchronize().unwrap();
    assert_eq!(made, 2, "the second one was left out");
}
