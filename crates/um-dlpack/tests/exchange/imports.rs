//! Imports.

use std::sync::atomic::Ordering::SeqCst;

use cuda_um_testkit::watchdog::watch;
use um_backend::BufferKind::{Cuda, Pinned, Unified};
use um_backend::{cuda_um::MemoryKind, memory::BufferMemory};
use um_dlpack::dlpark::Managed;
use um_dlpack::dlpark::ffi::{DLDataType, DLManagedTensor};
use um_dlpack::{Imported, Target, import};

use super::{Theirs, buffer, elements, export_as, import_of, machine};

fn kind(imported: &Imported) -> Option<MemoryKind> {
    match imported.buffer.bytes().memory() {
        BufferMemory::Cuda(view) => Some(view.kind()),
        _ => None,
    }
}

#[test]
fn each_device_type_becomes_its_kind_of_buffer() {
    let (_sim, backend) = machine();
    let mut rows = vec![
        (Cuda, Target::Cuda, Some(MemoryKind::Device)),
        (Pinned, Target::Host, None),
        (Pinned, Target::Cuda, Some(MemoryKind::Pinned)),
    ];
    if backend.device().managed_memory_obstacle().is_none() {
        rows.push((Unified, Target::Cuda, Some(MemoryKind::Managed)));
        rows.push((Unified, Target::Managed, Some(MemoryKind::Managed)));
    }
    for (of, target, expected) in rows {
        let buffer = buffer(&backend, of);
        let tensor = export_as(&buffer, |options| options.target = Some(target)).unwrap();
        let mut imported = import_of(tensor, &backend).unwrap();
        assert_eq!(
            (kind(&imported), &imported.shape[..], imported.read_only),
            (expected, &[2, 3][..], false),
            "{of} {target:?}"
        );
        assert_eq!(elements(&imported), [1, 2, 3, 4, 5, 6]);
        imported
            .buffer
            .typed_mut::<u32>()
            .unwrap()
            .fill_range(1..3, 9)
            .unwrap();
        drop(imported);
        assert_eq!(
            buffer.host::<u32>().unwrap()[..],
            [1, 9, 9, 4, 5, 6],
            "{of} {target:?}"
        );
    }
    um_dlpack::settle().unwrap();
}

#[test]
fn pinned_memory_of_another_library_is_a_pinned_buffer() {
    let (_sim, backend) = machine();
    let theirs = backend.create_from(Pinned, &[1u32, 2, 3]).unwrap();
    backend.synchronize().unwrap();
    let BufferMemory::Cuda(view) = theirs.memory() else {
        unreachable!()
    };
    let (tensor, drops) = Theirs::of(3, view.as_ptr(), 3).tensor(theirs);
    let imported = import_of(tensor, &backend).unwrap();
    assert_eq!(
        (kind(&imported), elements(&imported)),
        (Some(MemoryKind::Pinned), vec![1, 2, 3])
    );
    assert_eq!(drops.load(SeqCst), 0);
    drop(imported);
    backend.device().runtime().reclaim().unwrap();
    assert_eq!(drops.load(SeqCst), 1);
}

/// Its library gets it back, though the program calls nothing more.
#[test]
fn a_tensor_that_is_dropped_in_use_comes_back_by_itself() {
    let (sim, backend) = machine();
    let theirs = backend.create_from(Cuda, &[1u32, 2, 3]).unwrap();
    backend.synchronize().unwrap();
    let BufferMemory::Cuda(view) = theirs.memory() else {
        unreachable!()
    };
    let (tensor, drops) = Theirs::of(2, view.as_ptr(), 3).tensor(theirs);
    let mut imported = import_of(tensor, &backend).unwrap();
    let paused = sim.pause();
    let elements = imported.buffer.typed_mut::<u32>().unwrap();
    elements.fill_range(0..3, 7).unwrap();
    drop(imported);
    assert_eq!(drops.load(SeqCst), 0);
    drop(paused);
    let _watchdog = watch();
    while drops.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn memory_of_the_host_is_used_in_place_from_its_offset_on() {
    let (_sim, backend) = machine();
    let theirs: Box<[u32]> = Box::new([0, 1, 2, 3, 4, 5, 6]);
    let address = theirs.as_ptr();
    let mut said = Theirs::of(1, address, 6);
    said.byte_offset = 4;
    // Strides of extents that are 1 do not matter.
    (said.shape, said.strides) = (vec![2, 1, 3], Some(vec![3, 77, 1]));
    let (tensor, drops) = said.tensor(theirs);
    let mut imported = import_of(tensor, &backend).unwrap();
    assert_eq!(
        (kind(&imported), &imported.shape[..]),
        (None, &[2, 1, 3][..])
    );
    assert_eq!(elements(&imported), [1, 2, 3, 4, 5, 6]);
    let text = format!("{:?}", imported.buffer);
    assert!(text.contains("ForeignHost { len: 24"), "{text}");
    imported
        .buffer
        .typed_mut::<u32>()
        .unwrap()
        .write_one(0, 8)
        .unwrap();
    imported
        .buffer
        .typed_mut::<u32>()
        .unwrap()
        .fill_range(1..2, 9)
        .unwrap();
    // SAFETY: the owner lives in the buffer, which nothing borrows.
    let written = unsafe { (address.add(1).read(), address.add(2).read()) };
    assert_eq!(written, (8, 9));
    let bytes = imported.buffer.bytes_mut();
    bytes.copy_from_host_at(20, &[5, 0, 0, 0]).unwrap();
    assert_eq!(elements(&imported), [8, 9, 3, 4, 5, 5]);
    imported.buffer.bytes_mut().fill(1).unwrap();
    assert_eq!(elements(&imported), [0x0101_0101; 6]);
    assert_eq!(drops.load(SeqCst), 0);
    drop(imported);
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_tensor_from_before_dlpack_1_and_one_without_elements() {
    let (_sim, backend) = machine();
    let buffer = buffer(&backend, Cuda);
    let old: Managed<DLManagedTensor> = export_as(&buffer, |_| {}).unwrap();
    // SAFETY: the tensor is of this library.
    let imported = unsafe { import(old, &backend) }.unwrap();
    assert_eq!(elements(&imported), [1, 2, 3, 4, 5, 6]);
    for device_type in [1, 2, 3, 13] {
        let (tensor, drops) = Theirs::of(device_type, std::ptr::null::<u32>(), 0).tensor(());
        let imported = import_of(tensor, &backend).unwrap();
        assert!(imported.buffer.is_empty() && imported.shape == [0]);
        drop(imported);
        assert_eq!(drops.load(SeqCst), 1, "{device_type}");
    }
    drop((imported, buffer));
    um_dlpack::settle().unwrap();
    let scalar = Box::new(5u8);
    let said = Theirs {
        dtype: DLDataType::of::<u8>(),
        shape: vec![],
        ..Theirs::of(1, &raw const *scalar, 1)
    };
    let (tensor, _) = said.tensor(scalar);
    let imported = import_of(tensor, &backend).unwrap();
    assert!(imported.shape.is_empty() && imported.buffer.len() == 1);
}
