//! Modules, and launches of their kernels.

use std::ffi::CString;
use std::ptr::null_mut;

use cuda_um_sim::{Gpu, KernelChecks, Misuse, Sim};
use cuda_um_sys::cudaError;

use crate::support::{Cuda, Gate, MIB, PTX, call, h200, ok};

const SUCCESS: cudaError = cudaError::cudaSuccess;
const ILLEGAL: cudaError = cudaError::cudaErrorIllegalAddress;
const MISALIGNED: cudaError = cudaError::cudaErrorMisalignedAddress;

#[test]
fn a_kernel_that_does_not_exist_or_cannot_run_is_refused() {
    let cuda = h200();
    let driver = cuda.table.driver().unwrap();
    let mut module = null_mut();
    let image = CString::new(PTX).unwrap();
    assert_eq!(
        call!(driver, cuModuleLoadData(&mut module, image.as_ptr().cast())).0,
        0
    );
    let mut function = null_mut();
    assert_eq!(
        call!(
            driver,
            cuModuleGetFunction(&mut function, module, c"missing".as_ptr())
        )
        .0,
        500
    );
    assert_eq!(
        call!(
            driver,
            cuModuleGetFunction(&mut function, module, c"unsupported".as_ptr())
        )
        .0,
        209
    );
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 0);
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 400);
}

#[test]
fn a_module_unloaded_before_its_launches_ended_is_misuse() {
    let cuda = h200();
    let gate = Gate::new(&cuda);
    let driver = cuda.table.driver().unwrap();
    let data = cuda.device(16);

    let (module, write) = cuda.module_and_kernel("write");
    let pause = cuda.sim.pause();
    assert_eq!(cuda.try_launch(write, data, 16, null_mut()), 0);
    assert_eq!(cuda.try_launch(write, data, 16, null_mut()), 0);
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 0);
    drop(pause);
    cuda.sync(null_mut());
    let launches = 2;
    let enqueued = Misuse::ModuleUnloadedInUse { launches };
    assert_eq!(cuda.sim.misuse(), std::slice::from_ref(&enqueued));
    assert_eq!(cuda.sim.counters().kernels, 2, "they run all the same");

    let (module, wait) = cuda.module_and_kernel("wait");
    assert_eq!(cuda.try_launch(wait, data, gate.words(), null_mut()), 0);
    gate.await_kernel();
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 0);
    gate.open();
    let launches = 1;
    let running = Misuse::ModuleUnloadedInUse { launches };
    assert_eq!(cuda.sim.misuse(), [enqueued, running]);
}

#[test]
fn a_module_unloaded_after_its_launches_is_no_misuse() {
    let cuda = h200();
    let driver = cuda.table.driver().unwrap();
    let (data, stream) = (cuda.device(16), cuda.stream());
    let (module, write) = cuda.module_and_kernel("write");
    let (other, add) = cuda.module_and_kernel("add");
    assert_eq!(cuda.try_launch(write, data, 16, stream), 0);
    cuda.sync(stream);
    let pause = cuda.sim.pause();
    assert_eq!(cuda.try_launch(add, data, 16, stream), 0);
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 0);
    drop(pause);
    cuda.sync(stream);
    assert_eq!(call!(driver, cuModuleUnload(other)).0, 0);
    assert_eq!(cuda.sim.misuse(), []);
}

#[test]
fn a_read_of_device_memory_that_nothing_has_written_is_found() {
    let outcome = |written: usize, by_kernel: usize| {
        let cuda = Cuda::new(Sim::builder().kernel_checks(KernelChecks::All));
        let data = cuda.device(64);
        ok(call!(
            cuda.table,
            cudaMemsetAsync(data.cast(), 1, written, null_mut())
        ));
        cuda.copy(data.wrapping_add(written), [2; 7].as_ptr(), 7);
        cuda.launch(
            "write",
            data.wrapping_add(written + 7),
            by_kernel,
            null_mut(),
        );
        outcome(&cuda, "read", data, 64)
    };
    assert_eq!(outcome(40, 17), SUCCESS);
    assert_eq!(outcome(40, 16), cudaError::cudaErrorLaunchFailure);
    assert_eq!(outcome(13, 0), cudaError::cudaErrorLaunchFailure);
}

/// The result of the wait for a kernel.
fn outcome(cuda: &Cuda, kernel: &str, pointer: *mut u8, number: usize) -> cudaError {
    cuda.launch(kernel, pointer, number, null_mut());
    call!(cuda.table, cudaDeviceSynchronize())
}

#[test]
fn a_fault_of_a_kernel_is_a_sticky_error() {
    let faults = |kernel, offset, number, expected: cudaError| {
        let cuda = h200();
        let data = cuda.managed(MIB).wrapping_add(offset);
        assert_eq!(outcome(&cuda, kernel, data, number), expected, "{kernel}");
        let sticky = (expected != SUCCESS).then_some(expected);
        assert_eq!(cuda.sim.poison(), sticky, "{kernel}");
        let misuse = cuda.sim.misuse();
        match misuse.as_slice() {
            [] => assert_eq!(sticky, None),
            [Misuse::KernelFault { kernel: named, .. }] => assert_eq!(named, kernel),
            more => panic!("{more:?}"),
        }
    };
    faults("read", 0, MIB, SUCCESS);
    faults("read", 0, MIB + 1, ILLEGAL);
    faults("write", 0, MIB + 16, ILLEGAL);
    faults("write_8", 8, 0, SUCCESS);
    faults("write_8", 4, 0, MISALIGNED);
    faults("traps", 0, 0, cudaError::cudaErrorLaunchFailure);
}

#[test]
fn a_fault_is_told_with_its_kernel_line_and_address() {
    let cuda = h200();
    let data = cuda.device(4096);
    assert_eq!(outcome(&cuda, "write", data, 4096 + 16), ILLEGAL);
    let [Misuse::KernelFault { text, .. }] = &cuda.sim.misuse()[..] else {
        panic!("{:?}", cuda.sim.misuse());
    };
    let line = 1 + PTX
        .lines()
        .position(|line| line.contains("st.global.v4"))
        .unwrap();
    let address = format!("{:#x}", data as usize + 4096);
    for part in ["`write`", &format!("line {line}"), &address, "thread"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn registered_memory_ends_where_it_was_registered() {
    const READ_ONLY: u32 = 8;
    for (flags, before, len, expected) in [
        (2, 0, 4096, SUCCESS),
        (2, 0, 4097, ILLEGAL),
        (2, 1, 16, ILLEGAL),
        (READ_ONLY, 0, 4096, ILLEGAL),
    ] {
        // The device reaches all memory of the host except for pages that are not mapped; H200 has no such access.
        let cuda = Cuda::new(Sim::builder().gpu(Gpu::H200));
        let mut memory = vec![0u8; 3 * 4096];
        let registered = memory[4096..].as_mut_ptr();
        ok(call!(
            cuda.table,
            cudaHostRegister(registered.cast(), 4096, flags)
        ));
        let pointer = registered.wrapping_sub(before);
        let found = outcome(&cuda, "write", pointer, len);
        assert_eq!(found, expected, "{flags} {before} {len}");
    }
}

#[test]
fn a_kernel_may_not_touch_pageable_or_freed_memory() {
    for case in ["pageable", "freed", "null"] {
        let cuda = h200();
        let mut pageable = [0u8; 64];
        let freed = cuda.device(64);
        cuda.free(freed);
        let data = match case {
            "pageable" => pageable.as_mut_ptr(),
            "freed" => freed,
            _ => null_mut(),
        };
        cuda.launch("write", data, 64, null_mut());
        assert_eq!(
            call!(cuda.table, cudaDeviceSynchronize()),
            cudaError::cudaErrorIllegalAddress,
            "{case}"
        );
        assert_eq!(pageable, [0; 64]);
    }
}
