//! System memory: the resource, adopted vectors, mapped files, headroom.
#![allow(unsafe_code, reason = "maps files of the tests")]

use cuda_um::resource::SystemMemory;
use cuda_um::{
    Advice, Device, DeviceBuffer, Error, ErrorKind, Location, MemoryKind, Placement, Pool,
    PoolOptions, RegisteredBuffer, Stream, UnifiedBuffer, UnifiedOptions, managed::PrefetchBatch,
};
use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_testkit::{Add, Checked, calls, fails, message, on, open, simulated, simulated_with};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Memory of the heap that is unmapped as soon as it is freed.
const LARGE: usize = 1 << 20;

const STRICT: fn() -> UnifiedOptions = || UnifiedOptions::default().placement(Placement::System);

fn on_each(test: impl Fn(&Checked, &Device, &Stream)) {
    for gpu in [Gpu::Gh200, Gpu::Hmm, Gpu::Gb10] {
        let (sim, device, stream) = simulated(gpu);
        test(&sim, &device, &stream);
    }
}

/// Makes a temporary file with these bytes; its path is removed.
fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn cuda_neither_allocates_nor_frees_it() {
    on_each(|sim, device, _| {
        let memory = SystemMemory::new(device);
        sim.clear_trace();
        for bytes in [1, 1000, 64 << 10, 3 << 20] {
            let buffer = UnifiedBuffer::<u8>::zeroed_in(&memory, bytes).unwrap();
            let align = if bytes < 2 << 20 { 256 } else { 2 << 20 };
            assert!(buffer.as_ptr().addr().is_multiple_of(align), "{bytes}");
            assert!(buffer.host().unwrap().iter().all(|byte| *byte == 0));
            let asked = UnifiedBuffer::<u8>::zeroed_with(device, bytes, STRICT()).unwrap();
            assert_eq!(asked.placement().placement, Placement::System);
            let again = asked.zeroed_like(bytes).unwrap();
            assert_eq!(
                (again.as_view().kind(), again.is_managed()),
                (MemoryKind::System, false)
            );
        }
        let vector = UnifiedBuffer::from_vec(device, vec![1u8; LARGE]).unwrap();
        drop(vector);
        assert!(sim.trace().is_empty(), "{:?}", sim.trace());
    });
}

/// claim 18
#[test]
fn a_vector_is_adopted_and_comes_back() {
    on_each(|sim, device, stream| {
        let mut vector = Vec::with_capacity(LARGE + 10);
        vector.resize(LARGE, 1u32);
        let before = (vector.as_ptr(), vector.capacity());
        let mut buffer = UnifiedBuffer::from_vec(device, vector).unwrap();
        assert_eq!(buffer.as_ptr(), before.0);
        let text = buffer.placement().to_string();
        assert!(
            text.ends_with("the caller's vector itself, without a copy"),
            "{text}"
        );
        let add = Add::load(device);
        let held = sim.pause();
        add.run(stream, &mut buffer, LARGE, 2);
        assert_eq!(buffer.try_host().unwrap_err().kind(), ErrorKind::Busy);
        drop(held);
        let vector = buffer.into_vec().unwrap(); // waits for the kernel
        assert_eq!((vector.as_ptr(), vector.capacity()), before);
        assert_eq!(vector, [3; LARGE]);

        let none = UnifiedBuffer::<u32>::from_vec(device, Vec::with_capacity(7)).unwrap();
        assert!(none.into_vec().unwrap().is_empty());
        // A copy of memory that is no vector's.
        let system = UnifiedBuffer::from_slice_with(device, &[1u32, 2], STRICT()).unwrap();
        assert_eq!(system.into_vec().unwrap(), [1, 2]);
    });
}

/// claim 18
#[test]
fn a_buffer_that_is_dropped_in_use_is_freed_after_its_work() {
    on_each(|sim, device, stream| {
        let add = Add::load(device);
        for round in 0..3 {
            let mut buffer = match round {
                0 => UnifiedBuffer::from_vec(device, vec![1u32; LARGE]).unwrap(),
                1 => UnifiedBuffer::zeroed_in(&SystemMemory::new(device), LARGE).unwrap(),
                _ => UnifiedBuffer::zeroed_with(device, LARGE, STRICT()).unwrap(),
            };
            let held = sim.pause();
            add.run(stream, &mut buffer, LARGE, 2);
            drop(buffer);
            drop(held);
            // The kernel would not find memory that was unmapped.
            stream.synchronize().unwrap();
            device.runtime().reclaim().unwrap();
        }
    });
}

/// CUDA reads pageable memory when a copy is enqueued, before earlier work has written it.
#[test]
fn copies_and_fills_come_after_earlier_kernels() {
    on_each(|_, device, stream| {
        let (add, n) = (Add::load(device), LARGE as u32);
        let mut data = UnifiedBuffer::from_vec(device, vec![1u32; LARGE]).unwrap();
        let mut copy = DeviceBuffer::zeroed(device, LARGE).unwrap();
        add.launch(stream, LARGE, (&mut data, n, 1u32)).unwrap();
        stream.copy(&data, &mut copy).unwrap();
        assert_eq!(copy.to_vec().unwrap(), vec![2; LARGE]);
        add.launch(stream, LARGE, (&mut data, n, 1u32)).unwrap();
        data.write_one(0, 7).unwrap();
        add.launch(stream, LARGE, (&mut data, n, 1u32)).unwrap();
        data.copy_within_on(0..3, 1, stream).unwrap();
        assert_eq!(data.host().unwrap()[..5], [8, 8, 4, 4, 4]);
        let mut wide = UnifiedBuffer::from_vec(device, vec![[1u64, 2]; 1000]).unwrap();
        wide.fill_on([3, 4], stream).unwrap();
        assert_eq!(wide.into_vec().unwrap(), [[3, 4]; 1000]);
    });
}

#[test]
fn other_devices_copy_or_refuse() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess, Gpu::Maxwell] {
        let (_sim, device, _) = simulated(gpu);
        let vector = vec![7u32; 1000];
        let at = vector.as_ptr();
        let buffer = UnifiedBuffer::from_vec(&device, vector).unwrap();
        assert_ne!(buffer.as_ptr(), at);
        let why = buffer.placement().reason;
        assert!(
            why.contains("a copy of the caller's vector, since "),
            "{why}"
        );
        assert_eq!(buffer.into_vec().unwrap(), [7; 1000]);

        let file = file_of(&[7; 64]);
        // SAFETY: nothing else has the file.
        let read = |options| unsafe { UnifiedBuffer::<u8>::map_file(&device, &file, .., options) };
        let mut copy = read(UnifiedOptions::default()).unwrap();
        assert!(
            copy.placement()
                .reason
                .contains("a copy of the caller's file")
        );
        assert!(matches!(copy.fill(1), Err(Error::ReadOnly { .. })));
        assert_eq!(copy.to_vec().unwrap(), [7; 64]);

        for refused in [
            UnifiedBuffer::<u32>::zeroed_with(&device, 8, STRICT()).map(drop),
            UnifiedBuffer::<u32>::zeroed_in(&SystemMemory::new(&device), 8).map(drop),
            read(STRICT()).map(drop),
        ] {
            let says = [
                "cudaDevAttrPageableMemoryAccess",
                "Placement::Mapped",
                device.name(),
            ];
            fails!(
                refused,
                Error::NotSupported { .. },
                says[0],
                says[1],
                says[2]
            );
        }
    }
}

/// claim 19
#[test]
fn a_file_is_mapped_to_be_read() {
    on_each(|sim, device, stream| {
        let bytes: Vec<u8> = (0..20_000).map(|i| i as u8).collect();
        let file = file_of(&bytes);
        let none = UnifiedOptions::default();
        sim.clear_trace();
        // SAFETY: nothing else has the file.
        let mut mapped =
            unsafe { UnifiedBuffer::<u32>::map_file(device, &file, 4096.., none) }.unwrap();
        assert!(sim.trace().is_empty(), "{:?}", sim.trace());
        assert_eq!(
            bytemuck::cast_slice::<u32, u8>(&mapped.host().unwrap()),
            &bytes[4096..]
        );
        let mut on_device = DeviceBuffer::zeroed(device, mapped.len()).unwrap();
        stream.copy(&mapped, &mut on_device).unwrap();
        assert_eq!(on_device.to_vec().unwrap(), mapped.to_vec().unwrap());
        assert!(matches!(mapped.host_mut(), Err(Error::ReadOnly { .. })));
        let refused = catch_unwind(AssertUnwindSafe(|| mapped.system_slice_mut()[0] = 1));
        let panic = refused.unwrap_err();
        assert!(message(&*panic).contains("read-only"));
        let n = mapped.len() as u32;
        let written = Add::load(device).launch(stream, 8, (&mut mapped, n, 1u32));
        assert!(
            matches!(written, Err(Error::ReadOnly { .. })),
            "{written:?}"
        );
        assert_eq!(mapped.into_system_vec().len(), 3976);

        for (range, reason) in [
            (0..20_004, "the file has 20000 bytes"),
            (Range { start: 8, end: 4 }, "the file has 20000 bytes"),
            (0..10, "elements have 4 bytes"),
            (2..10, "it begins at a multiple of 4"),
        ] {
            // SAFETY: nothing else has the file.
            let refused = unsafe { UnifiedBuffer::<u32>::map_file(device, &file, range, none) };
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        // SAFETY: nothing else has the file.
        let empty = unsafe { UnifiedBuffer::<u32>::map_file(device, &file, 8..8, none) }.unwrap();
        assert!(empty.is_empty());
    });
}

#[test]
fn hints_apply_and_end_with_the_buffer() {
    on_each(|sim, device, stream| {
        let here = Location::from(device);
        let buffer = UnifiedBuffer::from_vec(device, vec![1u8; 8 * LARGE]).unwrap();
        let preferred = Advice::SetPreferredLocation(Location::Host);
        assert!(buffer.advise(preferred).unwrap().is_applied());
        assert!(
            buffer
                .advise(Advice::SetAccessedBy(here))
                .unwrap()
                .is_applied()
        );
        assert!(buffer.prefetch_on(here, stream).unwrap().is_applied());
        let mut batch = PrefetchBatch::new();
        batch.add(&buffer);
        assert!(batch.prefetch_on(Location::Host, stream).unwrap().calls > 0);
        sim.clear_trace();
        let refused = buffer.range_attributes().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotSupported);
        drop(buffer.into_vec().unwrap());
        assert_eq!(calls(sim, "cudaMemAdvise"), 2, "each advice is undone once");
    });
}

/// The host may use it at any time without a guard.
#[test]
fn a_prefetch_of_it_is_never_elided() {
    let hmm = |builder: cuda_um_sim::Builder| builder.gpu(Gpu::Hmm).cuda(CudaVersion::V13_0);
    let (sim, device, stream) = simulated_with(hmm);
    let buffer = UnifiedBuffer::from_vec(&device, vec![1u8; 8 * LARGE]).unwrap();
    let elements = buffer.system_slice();
    let moved = [(); 2].map(|()| {
        sim.reset_counters();
        buffer.prefetch_on(&device, &stream).unwrap();
        stream.synchronize().unwrap();
        assert!(elements.iter().all(|byte| *byte == 1));
        sim.host_wrote(elements.as_ptr().cast(), elements.len());
        let counters = sim.counters();
        [counters.bytes_to_device, counters.bytes_to_host]
    });
    assert_eq!(moved[0], moved[1], "the second one was left out");
}

#[test]
fn the_driver_tells_where_it_is() {
    for (gpu, moves) in [(Gpu::Gh200, true), (Gpu::Hmm, true), (Gpu::Gb10, false)] {
        let newest = |builder: cuda_um_sim::Builder| builder.gpu(gpu).cuda(CudaVersion::V13_4);
        let (_sim, device, stream) = simulated_with(newest);
        let here = Location::from(&device);
        let buffer = UnifiedBuffer::<u8>::zeroed_with(&device, 8 << 20, STRICT()).unwrap();
        buffer.host().unwrap();
        buffer.prefetch_on(here, &stream).unwrap();
        let expected = if moves { here } else { Location::Host };
        assert_eq!(buffer.residency().unwrap(), Some(expected), "{gpu:?}");
    }
}

#[test]
fn headroom_keeps_memory_of_the_device_free() {
    const TOTAL: usize = 256 << 20;
    const BYTES: usize = 4 << 20;
    for gpu in [Gpu::Gh200, Gpu::Hmm, Gpu::Gb10] {
        let sized =
            |builder: cuda_um_sim::Builder| builder.gpu(gpu).total_memory_bytes(TOTAL as u64);
        let (sim, device, stream) = simulated_with(sized);
        let add = Add::load(&device);
        let free = || device.memory_info().unwrap().free_bytes;
        // Memory that is unmapped would count until the address is free: other tests may take and free it meanwhile.
        let mut kept = Vec::new();
        for (left, near) in [(BYTES, BYTES), (1 << 20, 1 << 20), (0, 0)] {
            let now = free();
            let headroom = if left > 0 { now - left } else { 2 * TOTAL };
            let memory = SystemMemory::new(&device).headroom_bytes(headroom);
            sim.clear_trace();
            let mut buffer = UnifiedBuffer::<u32>::zeroed_in(&memory, BYTES / 4).unwrap();
            let parts = if near == 1 << 20 { 2 } else { 1 };
            assert_eq!(calls(&sim, "cudaMemAdvise"), parts, "{gpu:?}");
            let before = free();
            let len = buffer.len();
            add.run(&stream, &mut buffer, len, 1);
            stream.synchronize().unwrap();
            let taken = if gpu == Gpu::Gb10 { 0 } else { near };
            assert_eq!(before - free(), taken, "{gpu:?}");
            assert_eq!(buffer.to_vec().unwrap(), vec![1; len]);
            kept.push(buffer);
        }
        // A small buffer with headroom has pages of its own.
        let memory = SystemMemory::new(&device).headroom_bytes(2 * TOTAL);
        let small = UnifiedBuffer::<u8>::zeroed_in(&memory, 100).unwrap();
        assert!(small.as_ptr().addr().is_multiple_of(4096));
    }
}

#[test]
fn a_borrowed_slice_is_registered_only_where_that_helps() {
    for (gpu, registers) in [
        (Gpu::Gh200, 0),
        (Gpu::Gb10, 0),
        (Gpu::Hmm, 1),
        (Gpu::H200, 1),
    ] {
        let (sim, device, stream) = simulated(gpu);
        let add = Add::load(&device);
        let mut slice = vec![1u32; LARGE];
        sim.clear_trace();
        let launched = RegisteredBuffer::scope(&device, &mut slice, |slice| {
            add.launch(&stream, LARGE, (slice, LARGE as u32, 1u32))
        });
        launched.unwrap().unwrap();
        assert_eq!(slice, [2; LARGE], "the scope waits");
        assert_eq!(calls(&sim, "cudaHostRegister"), registers, "{gpu:?}");
    }
}

#[test]
fn devices_share_it_and_pools_refuse_it() {
    let builder = cuda_um_sim::Sim::builder().gpu(Gpu::Gh200).devices(2);
    let sim = Checked::new(builder.build().unwrap());
    let runtime = open(&sim);
    let ((first, _), (second, stream)) = (on(&runtime, 0), on(&runtime, 1));
    let mut shared = UnifiedBuffer::from_vec(&first, vec![1u32; 1000]).unwrap();
    let add = Add::load(&second);
    add.run(&stream, &mut shared, 1000, 1);
    shared.fill_on(5, &stream).unwrap();
    assert_eq!(shared.read_one(7).unwrap(), 5);

    let options = PoolOptions::default();
    fails!(
        Pool::new(&first, MemoryKind::System, options),
        Error::NotSupported { .. }
    );
    assert!(first.pool(MemoryKind::System).unwrap().is_none());
    assert!(first.set_pool_options(MemoryKind::System, options).is_err());
}
