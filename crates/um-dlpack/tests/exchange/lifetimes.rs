//! The ends of exports and imports.

use std::sync::atomic::Ordering::SeqCst;

use cuda_um_testkit::no_memory_left;
use cuda_um_testkit::watchdog::watch;
use um_backend::memory::BufferMemory;
use um_backend::{BufferKind, CudaError, SharedBuffer};
use um_dlpack::dlpark::ffi::DLManagedTensorVersioned;
use um_dlpack::{ConsumerOrder, DlpackBuffer, ExportOptions};

use super::{ON_DEVICE, Theirs, buffer, elements, export, import_of, machine};

#[test]
fn a_tensor_outlives_the_exporting_handle() {
    let (sim, backend) = machine();
    for kind in ON_DEVICE {
        let buffer = buffer(&backend, kind);
        let tensor = export(&buffer);
        drop(buffer);
        let imported = import_of(tensor, &backend).unwrap();
        assert_eq!(elements(&imported), [1, 2, 3, 4, 5, 6], "{kind}");
    }
    backend.synchronize().unwrap();
    backend.device().runtime().reclaim().unwrap();
    um_dlpack::settle().unwrap();
    no_memory_left(&sim, backend.device().runtime());
}

#[test]
fn a_deleter_makes_no_call_of_cuda_and_does_not_wait() {
    let (sim, backend) = machine();
    let [first, second] =
        [BufferKind::Cuda, BufferKind::Unified].map(|kind| buffer(&backend, kind));
    let tensors = [export(&first), export(&second)];
    drop((first, second));
    let mut busy = backend.create::<u32>(BufferKind::Cuda, 100).unwrap();
    let paused = sim.pause();
    busy.fill(1).unwrap();
    let before = sim.trace().len();
    std::thread::spawn(|| drop(tensors)).join().unwrap();
    let calls: Vec<_> = sim.trace()[before..].iter().map(|call| call.name).collect();
    // The thread of this crate may have begun to wait; nothing was freed.
    let may = ["cudaGetDevice", "cudaSetDevice", "cudaDeviceSynchronize"];
    assert!(calls.iter().all(|call| may.contains(call)), "{calls:?}");
    drop(paused);
    drop(busy);
    um_dlpack::settle().unwrap();
    no_memory_left(&sim, backend.device().runtime());
}

#[test]
fn memory_is_freed_after_the_consumers_work() {
    let (sim, backend) = machine();
    let buffer = buffer(&backend, BufferKind::Cuda);
    // SAFETY: nothing uses the address.
    unsafe { buffer.export_address(um_dlpack::ConsumerOrder::Wait) }.unwrap();
    let before = cuda_um_testkit::calls(&sim, "cudaDeviceSynchronize");
    drop(buffer);
    um_dlpack::settle().unwrap();
    assert!(
        cuda_um_testkit::calls(&sim, "cudaDeviceSynchronize") > before,
        "the consumer's kernel may still run"
    );
    no_memory_left(&sim, backend.device().runtime());
}

/// A program that deletes its tensors may make no call after that for a long time.
#[test]
fn memory_comes_back_without_another_call() {
    let (sim, backend) = machine();
    let _watchdog = watch();
    for is_exported in [false, true] {
        let theirs = backend
            .create_from(BufferKind::Cuda, &[1u32, 2, 3])
            .unwrap();
        backend.synchronize().unwrap();
        let BufferMemory::Cuda(view) = theirs.memory() else {
            unreachable!()
        };
        let (tensor, drops) = Theirs::of(2, view.as_ptr(), 3).tensor(theirs);
        let mut imported = import_of(tensor, &backend).unwrap();
        let paused = sim.pause();
        let ours = imported.buffer.typed_mut::<u32>().unwrap();
        ours.fill(9).unwrap();
        if is_exported {
            let buffer = DlpackBuffer::new(SharedBuffer::new(imported.buffer));
            let mut options = ExportOptions::default();
            options.ordering = ConsumerOrder::Consumer;
            // SAFETY: nothing uses the memory.
            let tensor = unsafe { buffer.export::<DLManagedTensorVersioned>(&[3], &options) };
            drop((buffer, tensor.unwrap()));
        } else {
            drop(imported);
        }
        assert_eq!(drops.load(SeqCst), 0, "the fill has not run");
        drop(paused);
        while drops.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_capture_does_not_wait_for_what_waits_for_its_end() {
    let (_sim, backend) = machine();
    let buffer = buffer(&backend, BufferKind::Cuda);
    // SAFETY: nothing uses the address.
    unsafe { buffer.export_address(um_dlpack::ConsumerOrder::Wait) }.unwrap();
    let step = backend.capture(|_| {
        drop(buffer);
        um_dlpack::settle()
    });
    let refused = step.unwrap_err();
    assert!(matches!(refused, CudaError::Capture { .. }), "{refused}");
    um_dlpack::settle().unwrap();
}

#[test]
fn an_import_keeps_the_tensor_and_a_refused_one_returns_it() {
    let (_sim, backend) = machine();
    let theirs: Box<[u32]> = Box::new([1, 2, 3]);
    let (tensor, drops) = Theirs::of(1, theirs.as_ptr(), 3).tensor(theirs);
    let imported = import_of(tensor, &backend).unwrap();
    let shared = um_backend::SharedBuffer::new(imported.buffer);
    let view = shared.view(1..2).unwrap();
    drop(shared);
    assert_eq!((view.host::<u32>().unwrap()[0], drops.load(SeqCst)), (2, 0));
    drop(view);
    assert_eq!(drops.load(SeqCst), 1);
    let (tensor, drops) = Theirs::of(4, std::ptr::dangling::<u32>(), 3).tensor(());
    assert!(import_of(tensor, &backend).is_err());
    assert_eq!(drops.load(SeqCst), 1);
}

#[cfg(unix)]
#[test]
fn a_child_made_by_fork_runs_deleters() {
    let (_sim, backend) = machine();
    let buffer = buffer(&backend, BufferKind::Cuda);
    let mut tensors = Some((export(&buffer), export(&buffer)));
    let mut inherited = Some(buffer);
    let code = cuda_um_testkit::child::in_child(|| {
        let handle = inherited.take().unwrap();
        let is_refused = handle.host::<u32>().is_err();
        let (first, second) = tensors.take().unwrap();
        drop(first);
        drop(handle);
        drop(second);
        um_dlpack::settle().unwrap();
        i32::from(!is_refused)
    });
    assert_eq!(code, 0, "0, or 1 if the child could use the memory");
    drop(tensors);
    assert_eq!(
        inherited.unwrap().host::<u32>().unwrap()[..],
        [1, 2, 3, 4, 5, 6]
    );
}

#[test]
fn a_long_chain_of_imports_needs_no_deep_stack() {
    const LINKS: usize = 20_000;
    let (_sim, backend) = machine();
    let theirs: Box<[u32]> = Box::new([1, 2, 3]);
    let (mut tensor, drops) = Theirs::of(1, theirs.as_ptr(), 3).tensor(theirs);
    for _ in 0..LINKS {
        let imported = import_of(tensor, &backend).unwrap();
        let storage = um_backend::SharedBuffer::new(imported.buffer);
        let buffer = um_dlpack::DlpackBuffer::new(storage);
        // SAFETY: nothing uses the memory.
        tensor = unsafe { buffer.export(&[3], &um_dlpack::ExportOptions::default()) }.unwrap();
    }
    drop(tensor);
    assert_eq!(drops.load(SeqCst), 1);
}
