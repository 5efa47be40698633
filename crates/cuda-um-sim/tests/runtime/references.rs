//! CPU references: their choice, the memory that they get, and the consequences of wrong ones.

use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

use cuda_um_sim::{
    CpuReference, Gpu, LaunchContext, Misuse, ReferenceError, Sim, register_kernel, register_module,
};
use cuda_um_sys::{CUfunction, Table, cudaError, cudaStream_t};

use crate::support::{Cuda, bytes, call, h200, ok, with_kernel, within_a_minute};

const SUCCESS: cudaError = cudaError::cudaSuccess;
const ILLEGAL: cudaError = cudaError::cudaErrorIllegalAddress;
const MISALIGNED: cudaError = cudaError::cudaErrorMisalignedAddress;

/// Runs a reference on a pointer and a number; returns the result of the wait for it.
fn outcome(gpu: Gpu, reference: CpuReference, pointer: *mut u8, number: usize) -> cudaError {
    let cuda = Cuda::new(with_kernel(Sim::builder().gpu(gpu), "custom", reference));
    cuda.launch("custom", pointer, number, null_mut());
    call!(cuda.table, cudaDeviceSynchronize())
}

/// Looks a kernel up in a module of its own; returns the result.
fn look_up(cuda: &Cuda, name: &str) -> u32 {
    look_up_in(cuda, &module_of(name, "out"), name).0
}

/// The text of a module with one kernel.
fn module_of(name: &str, parameter: &str) -> String {
    format!(".version 6.4\n.target sm_60\n.entry {name}(.param .u64 {parameter}) {{ ret; }}")
}

fn look_up_in(cuda: &Cuda, text: &str, name: &str) -> (u32, CUfunction) {
    let driver = cuda.table.driver().unwrap();
    let (text, name) = (CString::new(text).unwrap(), CString::new(name).unwrap());
    let (mut module, mut function) = (null_mut(), null_mut());
    let loaded = call!(driver, cuModuleLoadData(&mut module, text.as_ptr().cast()));
    assert_eq!(loaded.0, 0);
    let code = call!(
        driver,
        cuModuleGetFunction(&mut function, module, name.as_ptr())
    );
    (code.0, function)
}

#[test]
fn kernels_of_two_modules_with_one_name_have_their_own_references() {
    const NAME: &str = "named_twice";
    fn store<const N: u8>(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
        launch.slice_mut::<u8>(0, 1)?[0] = N;
        Ok(())
    }
    let (first, second) = (module_of(NAME, "first"), module_of(NAME, "second"));
    let (third, cuda) = (module_of(NAME, "third"), h200());
    // SAFETY: the kernels exist only as these references.
    unsafe {
        register_module(&first, &[(NAME, store::<1>)]);
        register_module(&first, &[(NAME, store::<1>)]);
        register_module(&second, &[(NAME, store::<2>)]);
    }
    assert_eq!(look_up_in(&cuda, &third, NAME).0, 209);
    // SAFETY: as above.
    unsafe { register_kernel(NAME, store::<3>) };
    for (text, expected) in [(&first, 1), (&second, 2), (&third, 3)] {
        let (code, function) = look_up_in(&cuda, text, NAME);
        assert_eq!(code, 0);
        let data = cuda.managed(16);
        assert_eq!(cuda.try_launch(function, data, 0, null_mut()), 0);
        cuda.sync(null_mut());
        assert_eq!(bytes(data, 1)[0], expected);
    }
    // SAFETY: as above.
    unsafe { register_module(&second, &[(NAME, store::<4>)]) };
    assert_eq!(look_up_in(&cuda, &second, NAME).0, 209, "ambiguous");
    assert_eq!(look_up_in(&cuda, &first, NAME).0, 0);
}

#[test]
fn an_input_and_an_output_may_be_one_range() {
    /// Adds 1 to the 8 bytes behind the first parameter, and stores them at an offset from there.
    fn shifted(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
        let (input, output) = launch.in_place::<u8>(0, 1, 8)?;
        assert_eq!((input.len(), input.is_empty(), output.len()), (8, false, 8));
        let first = input.get(0);
        let pairs = input.iter().zip(output);
        pairs.for_each(|(x, y)| y.set(x + first));
        let refused = launch.slice::<u8>(1, 1).unwrap_err();
        assert!(matches!(refused, ReferenceError::Overlap { index: 1 }));
        Ok(())
    }
    let run = |distance: usize| {
        let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", shifted));
        let data = cuda.pinned(64);
        bytes(data, 64).fill(1);
        let output = data.wrapping_add(distance) as usize;
        cuda.launch("custom", data, output, null_mut());
        (
            call!(cuda.table, cudaDeviceSynchronize()),
            bytes(data, 64).to_vec(),
        )
    };
    // The overlap that the reference itself provokes is a fault of the kernel, too: so each run ends with one.
    for (distance, expected) in [(0, [2, 1, 1]), (8, [1, 2, 1]), (16, [1, 1, 2])] {
        let (code, found) = run(distance);
        assert_eq!(code, ILLEGAL);
        assert_eq!([found[0], found[8], found[16]], expected);
    }
    let (code, found) = run(4);
    assert_eq!(
        (code, found),
        (ILLEGAL, vec![1; 64]),
        "they overlap in part"
    );
}

#[test]
fn a_second_reference_under_one_name_replaces_nothing() {
    fn first(_: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
        Ok(())
    }
    fn second(_: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
        Err(ReferenceError::Failed("the second".to_owned()))
    }
    const NAME: &str = "referenced_twice";
    // SAFETY: neither touches memory.
    let register = |reference| unsafe { register_kernel(NAME, reference) };
    let cuda = h200();
    register(first);
    register(first);
    assert_eq!(look_up(&cuda, NAME), 0);
    assert_eq!(cuda.sim.misuse(), []);
    register(second);
    register(first);
    assert_eq!(look_up(&cuda, NAME), 209);
    let kernel = NAME.to_owned();
    assert_eq!(cuda.sim.misuse(), [Misuse::AmbiguousReference { kernel }]);
    let own = Cuda::new(with_kernel(Sim::builder(), NAME, second));
    assert_eq!(look_up(&own, NAME), 0, "this simulator has one of its own");
}

#[test]
fn a_reference_gets_no_memory_that_the_simulator_does_not_know() {
    let read: CpuReference = |launch| {
        launch
            .slice::<u8>(0, launch.value::<u64>(1)? as usize)
            .map(drop)
    };
    let write: CpuReference = |launch| {
        let len = launch.value::<u64>(1)? as usize;
        launch.slice_mut::<u8>(0, len).map(drop)
    };
    let mut stack = [0u8; 64];
    for gpu in [Gpu::H200, Gpu::Gh200] {
        for reference in [read, write] {
            for (pointer, len) in [
                (stack.as_mut_ptr(), 64),
                (4 as *mut u8, 64),
                (null_mut(), 1),
                (usize::MAX as *mut u8, 1),
                (64 as *mut u8, usize::MAX),
                (64 as *mut u8, isize::MAX as usize + 1),
            ] {
                let found = outcome(gpu, reference, pointer, len);
                assert_eq!(found, ILLEGAL, "{gpu:?} {pointer:?} {len}");
            }
            assert_eq!(outcome(gpu, reference, null_mut(), 0), SUCCESS);
        }
    }
}

#[test]
fn a_slice_of_registered_memory_stays_inside_of_it() {
    let write: CpuReference = |launch| {
        let len = launch.value::<u64>(1)? as usize;
        launch.slice_mut::<u8>(0, len)?.fill(1);
        Ok(())
    };
    const READ_ONLY: u32 = 8;
    for (flags, before, len, expected) in [
        (2, 0, 4096, SUCCESS),
        (2, 0, 4097, ILLEGAL),
        (2, 1, 16, ILLEGAL),
        (READ_ONLY, 0, 4096, ILLEGAL),
    ] {
        let cuda = Cuda::new(with_kernel(Sim::builder().gpu(Gpu::Gh200), "custom", write));
        let mut memory = vec![0u8; 3 * 4096];
        let registered = memory[4096..].as_mut_ptr();
        ok(call!(
            cuda.table,
            cudaHostRegister(registered.cast(), 4096, flags)
        ));
        let pointer = registered.wrapping_sub(before);
        cuda.launch("custom", pointer, len, null_mut());
        let found = call!(cuda.table, cudaDeviceSynchronize());
        assert_eq!(found, expected, "{flags} {before} {len}");
        let written = memory.iter().filter(|byte| **byte == 1).count();
        assert_eq!(written, if expected == SUCCESS { len } else { 0 });
    }
}

#[test]
fn system_memory_is_the_references_own_promise() {
    let read: CpuReference = |launch| {
        let len = launch.value::<u64>(1)? as usize;
        // SAFETY: the test lends `len` bytes for the time of the launch.
        let found = unsafe { launch.system_slice::<u8>(0, len)? };
        match found.iter().all(|byte| *byte == 5) {
            true => Ok(()),
            false => Err(ReferenceError::Failed("other bytes".to_owned())),
        }
    };
    let mut memory = [5u8; 64];
    assert_eq!(outcome(Gpu::Gh200, read, memory.as_mut_ptr(), 64), SUCCESS);
    assert_eq!(outcome(Gpu::H200, read, memory.as_mut_ptr(), 64), ILLEGAL);
}

#[test]
fn a_refused_access_is_a_fault_whatever_the_reference_makes_of_it() {
    let ignored: CpuReference = |launch| {
        let _ = launch.slice_mut::<u64>(0, 1);
        Ok(())
    };
    let renamed: CpuReference = |launch| {
        let refused = launch.slice_mut::<u64>(0, 1).map(drop);
        refused.map_err(|error| ReferenceError::Failed(error.to_string()))
    };
    let unwrapped: CpuReference = |launch| {
        launch.slice_mut::<u64>(0, 1).unwrap()[0] = 1;
        Ok(())
    };
    let second: CpuReference = |launch| {
        let _ = launch.slice_mut::<u64>(0, 1);
        launch.slice::<u8>(0, 1000).map(drop)
    };
    for reference in [ignored, renamed, unwrapped, second] {
        let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", reference));
        let data = cuda.pinned(64);
        bytes(data, 64).fill(3);
        cuda.launch("custom", data.wrapping_add(4), 0, null_mut());
        assert_eq!(call!(cuda.table, cudaDeviceSynchronize()), MISALIGNED);
        assert_eq!(cuda.sim.poison(), Some(MISALIGNED), "it is sticky");
        assert_eq!(bytes(data, 64), [3; 64]);
    }
}

#[test]
fn elements_are_aligned_for_their_type() {
    fn fill<T: bytemuck::Pod>(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
        launch.slice_mut::<T>(0, 2)?.fill(T::zeroed());
        Ok(())
    }
    let at = |reference: CpuReference, offset: usize| {
        let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", reference));
        let data = cuda.device(64);
        cuda.launch("custom", data.wrapping_add(offset), 0, null_mut());
        call!(cuda.table, cudaDeviceSynchronize())
    };
    for offset in 0..=8 {
        let expected = |align: usize| match offset % align {
            0 => SUCCESS,
            _ => MISALIGNED,
        };
        assert_eq!(at(fill::<[u8; 8]>, offset), SUCCESS);
        assert_eq!(at(fill::<u16>, offset), expected(2));
        assert_eq!(at(fill::<f32>, offset), expected(4));
        assert_eq!(at(fill::<u64>, offset), expected(8));
        assert_eq!(at(fill::<[u32; 2]>, offset), expected(4));
    }
}

/// A payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(Bomb);
    }
}

#[test]
fn a_panic_of_a_reference_ends_with_the_kernel() {
    let panics: CpuReference = |_| panic!("a reference may panic");
    let explodes: CpuReference = |_| std::panic::panic_any(Bomb);
    for reference in [panics, explodes] {
        within_a_minute(move || {
            let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", reference));
            let (data, stream) = (cuda.device(16), cuda.stream());
            cuda.launch("custom", data, 0, stream);
            let failure = cudaError::cudaErrorLaunchFailure;
            assert_eq!(call!(cuda.table, cudaStreamSynchronize(stream)), failure);
            let misuse = cuda.sim.misuse();
            assert!(matches!(misuse[..], [Misuse::KernelFault { .. }]));
        });
    }
}

#[test]
fn a_reference_may_not_call_cuda() {
    static INSIDE: Mutex<Option<(Arc<Table>, usize)>> = Mutex::new(None);
    static FOUND: Mutex<Vec<cudaError>> = Mutex::new(Vec::new());
    let calls: CpuReference = |_| {
        let (table, stream) = INSIDE.lock().unwrap().take().unwrap();
        let own = stream as cudaStream_t;
        let mut found = FOUND.lock().unwrap();
        found.push(call!(table, cudaStreamSynchronize(own)));
        found.push(call!(table, cudaDeviceSynchronize()));
        Ok(())
    };
    within_a_minute(move || {
        let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", calls));
        let (data, stream) = (cuda.device(16), cuda.stream());
        *INSIDE.lock().unwrap() = Some((cuda.table.clone(), stream as usize));
        cuda.launch("custom", data, 0, stream);
        cuda.sync(stream);
        let refused = cudaError::cudaErrorNotPermitted;
        assert_eq!(*FOUND.lock().unwrap(), [refused, refused]);
        let calls = ["cudaStreamSynchronize", "cudaDeviceSynchronize"].map(str::to_owned);
        let expected = calls.map(|call| Misuse::CallInHostFunction { call });
        assert_eq!(cuda.sim.misuse(), expected);
    });
}

#[test]
fn a_child_that_a_reference_makes_has_no_memory_and_ends() {
    static STATUS: Mutex<Option<i32>> = Mutex::new(None);
    const NOT_REFUSED: i32 = 42;
    let forks: CpuReference = |launch| {
        // SAFETY: the child only requests a slice, and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no child");
        if child == 0 {
            if launch.slice::<u8>(0, 16).is_ok() {
                // SAFETY: ends the child.
                unsafe { libc::_exit(NOT_REFUSED) };
            }
            return Ok(());
        }
        let mut status = 0;
        // SAFETY: `status` is written.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        *STATUS.lock().unwrap() = Some(status);
        launch.slice_mut::<u8>(0, 16)?.fill(9);
        Ok(())
    };
    let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", forks));
    let data = cuda.pinned(16);
    cuda.run("custom", data, 16);
    let status = STATUS.lock().unwrap().unwrap();
    assert!(libc::WIFEXITED(status), "{status}");
    assert_eq!(libc::WEXITSTATUS(status), 1);
    assert_eq!(bytes(data, 16), [9; 16], "the parent goes on");
}
