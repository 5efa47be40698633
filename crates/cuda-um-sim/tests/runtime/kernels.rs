//! Modules, launches and CPU references.

use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Barrier;

use cuda_um_sim::{LaunchContext, Misuse, ReferenceError, Sim, register_kernel};
use cuda_um_sys::cudaError;

use crate::support::{Cuda, MIB, PTX, bytes, call, h200, with_kernel};

#[test]
fn a_kernel_without_a_name_or_a_reference_is_refused() {
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
            cuModuleGetFunction(&mut function, module, c"unreferenced".as_ptr())
        )
        .0,
        209
    );
    assert_eq!(
        cuda.sim.misuse(),
        [Misuse::NoReference {
            kernel: "unreferenced".to_owned()
        }]
    );
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 0);
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 400);
}

#[test]
fn a_module_unloaded_before_its_launches_ended_is_misuse() {
    static RUNS: Barrier = Barrier::new(2);
    static ENDS: Barrier = Barrier::new(2);
    fn wait(_: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
        RUNS.wait();
        ENDS.wait();
        Ok(())
    }
    let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", wait));
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

    let (module, custom) = cuda.module_and_kernel("custom");
    assert_eq!(cuda.try_launch(custom, data, 16, null_mut()), 0);
    RUNS.wait();
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 0);
    ENDS.wait();
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

/// Runs a reference on 16 bytes of memory; returns the sticky error of the context.
fn poison_of(reference: cuda_um_sim::CpuReference) -> Option<cudaError> {
    let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", reference));
    let data = cuda.managed(MIB);
    cuda.launch("custom", data, MIB, null_mut());
    let _ = call!(cuda.table, cudaDeviceSynchronize());
    cuda.sim.poison()
}

#[test]
fn an_error_of_a_reference_is_a_fault_of_the_kernel() {
    assert_eq!(
        poison_of(|launch| launch.slice::<u8>(0, MIB).map(drop)),
        None
    );
    assert_eq!(
        poison_of(|launch| launch.slice::<u8>(0, MIB + 1).map(drop)),
        Some(cudaError::cudaErrorIllegalAddress)
    );
    assert_eq!(
        poison_of(|launch| launch.value::<u32>(1).map(drop)),
        Some(cudaError::cudaErrorIllegalAddress)
    );
    assert_eq!(
        poison_of(|launch| launch.value::<u64>(2).map(drop)),
        Some(cudaError::cudaErrorIllegalAddress)
    );
    assert_eq!(
        poison_of(|_| Err(ReferenceError::Failed("no".to_owned()))),
        Some(cudaError::cudaErrorAssert)
    );
    assert_eq!(
        poison_of(|_| panic!("a reference may panic")),
        Some(cudaError::cudaErrorLaunchFailure)
    );
    let overlap: cuda_um_sim::CpuReference = |launch| {
        launch.slice::<u8>(0, 100)?;
        launch.slice_mut::<u8>(0, 1).map(drop)
    };
    assert_eq!(poison_of(overlap), Some(cudaError::cudaErrorIllegalAddress));
    let shared: cuda_um_sim::CpuReference = |launch| {
        let (a, b) = (launch.slice::<u8>(0, 100)?, launch.slice::<u8>(0, 50)?);
        if a[..50] == *b {
            Ok(())
        } else {
            Err(ReferenceError::Failed("they differ".to_owned()))
        }
    };
    assert_eq!(poison_of(shared), None, "several readers may share");
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

#[test]
fn references_can_be_registered_for_the_whole_process() {
    let reference: cuda_um_sim::CpuReference = |launch| {
        launch.slice_mut::<u8>(0, 1)?[0] = 99;
        Ok(())
    };
    // SAFETY: only this test launches a kernel of this name.
    unsafe { register_kernel("registered_for_all", reference) };
    let cuda = h200();
    let driver = cuda.table.driver().unwrap();
    let text = c".version 6.4\n.target sm_60\n.entry registered_for_all(.param .u64 out) { ret; }";
    let (mut module, mut function) = (null_mut(), null_mut());
    assert_eq!(
        call!(driver, cuModuleLoadData(&mut module, text.as_ptr().cast())).0,
        0
    );
    assert_eq!(
        call!(
            driver,
            cuModuleGetFunction(&mut function, module, c"registered_for_all".as_ptr())
        )
        .0,
        0
    );
    let data = cuda.managed(16);
    let mut pointer = data as u64;
    let mut arguments = [(&raw mut pointer).cast()];
    let launched = call!(
        driver,
        cuLaunchKernel(
            function,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            null_mut(),
            arguments.as_mut_ptr(),
            null_mut()
        )
    );
    assert_eq!(launched.0, 0);
    cuda.sync(null_mut());
    assert_eq!(bytes(data, 1)[0], 99);
}

/// What must compile.
#[test]
fn the_borrow_of_a_launch_may_become_shorter() {
    fn shorter<'short, 'long: 'short>(launch: LaunchContext<'long>) -> LaunchContext<'short> {
        launch
    }
    let _compiles = shorter;
}
