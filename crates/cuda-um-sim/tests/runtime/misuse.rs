//! Touches that end the process, in children; and faults at addresses that are not the simulator's.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use cuda_um_sim::{Gpu, Sim};

use crate::support::{Cuda, MIB, bytes, h200};

const CHILD: &str = "CUDA_UM_SIM_CRASH";

/// Runs one misuse in a child.
fn child(misuse: &str) -> Output {
    cuda_um_testkit::this_program()
        .args(["--exact", "misuse::in_a_child", "--nocapture"])
        .env(CHILD, misuse)
        .output()
        .unwrap()
}

fn assert_dies(misuse: &str, last_words: &str) {
    let output = child(misuse);
    assert_eq!(
        output.status.signal(),
        Some(libc_sigsegv()),
        "{misuse}: {output:?}"
    );
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(last_words), "{misuse}: {text}");
}

/// SIGSEGV's number on Linux.
fn libc_sigsegv() -> i32 {
    11
}

#[test]
fn a_host_that_touches_device_memory_dies_as_on_hardware() {
    assert_dies("device", "HostTouchOfDeviceMemory");
}

#[test]
fn a_host_that_touches_freed_memory_dies() {
    assert_dies("freed", "UseAfterFree");
}

#[test]
fn a_touch_under_a_kernel_kills_where_that_is_asked_for() {
    assert_dies("concurrent", "HostTouchDuringKernel");
}

#[test]
fn a_fault_elsewhere_still_kills() {
    assert_dies("elsewhere", "");
}

/// The body of the children. Without a parent it does nothing.
#[test]
fn in_a_child() {
    let cuda = h200();
    let data = match std::env::var(CHILD).as_deref() {
        Ok("device") => cuda.device(16),
        Ok("freed") => {
            let data = cuda.managed(16);
            bytes(data, 16).fill(1);
            cuda.free(data);
            data
        }
        Ok("concurrent") => {
            let cuda = Cuda::new(Sim::builder().gpu(Gpu::Maxwell).crash_on_misuse(true));
            let data = cuda.managed(MIB);
            cuda.launch("write", data, MIB, std::ptr::null_mut());
            bytes(data, 1)[0] = 1;
            unreachable!("the touch ends the process");
        }
        Ok("elsewhere") => 64 as *mut u8,
        _ => cuda.managed(16),
    };
    // SAFETY: only without a parent is this memory accessible, and then it is; the children are meant to die here.
    unsafe { data.write_volatile(1) };
    assert!(
        std::env::var_os(CHILD).is_none(),
        "the touch ends the process"
    );
}
