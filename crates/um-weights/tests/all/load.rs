//! Loads: every byte, once, through no more than the ring.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use um_backend::cuda_um::{DeviceBuffer, MemoryKind};
use um_backend::memory::{BufferMemory, BufferMemoryMut};
use um_backend::sim::{Gpu, Leak};
use um_backend::{BufferKind, DType, SharedBuffer};
use um_weights::{Error, LoadOptions, Tensor, Weights};

use crate::support::{
    Folder, RING, Storage, byte, bytes_of, load, load_all, machine, safetensors, written,
};

const GPUS: [Gpu; 7] = [
    Gpu::H200,
    Gpu::Gh200,
    Gpu::Hmm,
    Gpu::Gb10,
    Gpu::Pascal,
    Gpu::Maxwell,
    Gpu::NoConcurrentAccess,
];

/// Small tensors of many sizes, large ones, one without elements and a scalar.
fn model() -> Vec<u8> {
    safetensors(&[
        ("a.large", "F32", &[700, 600], 1_680_000),
        ("b.small", "F32", &[3, 5], 60),
        ("c.bytes", "U8", &[13], 13),
        ("d.half", "F16", &[128], 256),
        ("e.empty", "F64", &[0, 7], 0),
        ("f.scalar", "I64", &[], 8),
        ("g.scale", "F8_E8M0", &[10], 10),
        ("h.packed", "F4", &[2, 5], 5),
        ("i.large", "BF16", &[1000, 900], 1_800_000),
        ("j.last", "BOOL", &[1], 1),
    ])
}

const NAMES: [&str; 10] = [
    "a.large", "b.small", "c.bytes", "d.half", "e.empty", "f.scalar", "g.scale", "h.packed",
    "i.large", "j.last",
];

#[test]
fn every_byte_arrives_in_buffers_of_each_kind_on_each_machine() {
    let folder = Folder::new();
    let weights = Weights::open([folder.file("model.safetensors", &model())]).unwrap();
    for gpu in GPUS {
        let (_sim, backend) = machine(gpu);
        for kind in BufferKind::ALL {
            let loaded = load_all(&weights, &backend, kind);
            let names: Vec<_> = loaded.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, NAMES);
            for (number, (name, found)) in loaded.iter().enumerate() {
                let right = written(number, found.len());
                assert!(*found == right, "{name} on {gpu:?}, {kind}");
                assert_eq!(found.len(), weights.tensor(name).unwrap().size_bytes());
            }
        }
    }
}

fn address(tensor: &Tensor) -> usize {
    let part = tensor.buffer().read().unwrap();
    match part.bytes().memory() {
        BufferMemory::Cuda(view) => view.as_ptr().addr(),
        BufferMemory::Host(bytes) => bytes.as_ptr().addr(),
        _ => panic!("no memory"),
    }
}

#[test]
fn neighbours_share_an_allocation_and_begin_at_multiples_of_256_bytes() {
    let (_storage, weights) = Storage::of(model()).open();
    let (_sim, backend) = machine(Gpu::H200);
    let weights = weights.unwrap();
    for kind in [BufferKind::Cuda, BufferKind::Unified, BufferKind::Pinned] {
        let tensors = load(&weights, &backend, kind);
        let small: Vec<_> = NAMES[1..8].iter().map(|name| &tensors[*name]).collect();
        for tensor in &tensors {
            assert!(tensor.1.info().size_bytes() == 0 || address(tensor.1).is_multiple_of(256));
        }
        let with_bytes = |tensor: &&&Tensor| tensor.info().size_bytes() > 0;
        let small: Vec<_> = small.iter().filter(with_bytes).collect();
        for pair in small.windows(2) {
            let bytes = pair[0].info().size_bytes().next_multiple_of(256);
            assert_eq!(address(pair[1]), address(pair[0]) + bytes);
        }
        let large = tensors["i.large"].buffer().read().unwrap();
        assert_eq!(
            (large.dtype(), large.bytes().name()),
            (DType::BF16, Some("i.large"))
        );
        assert_eq!(tensors["g.scale"].dtype(), DType::Opaque(1));
        assert_eq!(tensors["h.packed"].buffer().len(), 5);
        assert_eq!(
            *tensors["f.scalar"].buffer().host::<i64>().unwrap(),
            [i64::from_le_bytes(std::array::from_fn(|at| byte(5, at)))]
        );
    }
}

#[test]
fn tensors_of_many_batches_arrive_in_order_and_a_failure_keeps_none() {
    let names: Vec<_> = (0..9000).map(|number| format!("t{number:05}")).collect();
    let tensors: Vec<_> = names
        .iter()
        .map(|name| (&**name, "U8", &[3usize][..], 3))
        .collect();
    let file = safetensors(&tensors);
    let (_storage, weights) = Storage::of(file.clone()).open();
    let (_sim, backend) = machine(Gpu::H200);
    let (weights, options) = (weights.unwrap(), LoadOptions::default());
    let loaded = weights.load(&backend, BufferKind::Cuda, &options).unwrap();
    assert!(loaded.keys().map(|name| &**name).eq(&names));
    for (number, tensor) in loaded.values().enumerate().step_by(89) {
        assert_eq!(*bytes_of(tensor), [0, 1, 2].map(|at| byte(number, at)));
    }
    drop(loaded);
    // The last batch fails while the one before is made.
    let mut storage = Storage::of(file);
    storage.fails_at = Some((weights.tensors()[8999].offset(), ErrorKind::Other));
    let (_storage, weights) = storage.open();
    let failed = weights.unwrap().load(&backend, BufferKind::Cuda, &options);
    assert!(matches!(failed, Err(Error::Read { .. })), "{failed:?}");
}

#[test]
fn the_bytes_that_move_are_those_of_the_file_without_a_fault_and_through_the_ring() {
    let (storage, weights) = Storage::of(model()).open();
    let weights = weights.unwrap();
    let bytes = weights.size_bytes();
    let header = storage.bytes.len() as u64 - bytes;
    // The gaps before the tensors that begin at multiples of 256 bytes.
    let gaps = 7 * 256;
    for kind in [BufferKind::Cuda, BufferKind::Unified] {
        let (sim, backend) = machine(Gpu::H200);
        let read = storage.read.load(Ordering::Relaxed);
        let tensors = load(&weights, &backend, kind);
        backend.synchronize().unwrap();
        assert_eq!(storage.read.load(Ordering::Relaxed) - read, bytes, "{kind}");
        assert!(read >= header);
        let counters = sim.counters();
        assert_eq!((counters.gpu_faults, counters.cpu_faults), (0, 0), "{kind}");
        let copied = counters.copied_to_device;
        assert!(
            (bytes..bytes + gaps).contains(&copied),
            "{copied} for {bytes}"
        );
        assert_eq!((counters.bytes_to_device, counters.bytes_to_host), (0, 0));
        let leaks = sim.leaks();
        let pinned = leaks.iter().filter_map(|leak| match leak {
            Leak::Memory { bytes, .. } if *bytes < 1 << 20 => Some(*bytes),
            _ => None,
        });
        let pinned: usize = pinned.sum();
        assert!((1..=RING).contains(&pinned), "{pinned}");
        drop(tensors);
    }
    // A device that reads memory of the host where it is copies nothing.
    for gpu in [Gpu::Gh200, Gpu::Gb10] {
        let (sim, backend) = machine(gpu);
        let tensors = load(&weights, &backend, BufferKind::Unified);
        let large = tensors["a.large"].buffer().read().unwrap();
        let BufferMemory::Cuda(view) = large.bytes().memory() else {
            panic!("kernels take it");
        };
        assert_eq!(view.kind(), MemoryKind::System);
        assert_eq!(sim.counters().copied_to_device, 0);
        let pinned = sim.leaks();
        assert!(
            !pinned
                .iter()
                .any(|leak| matches!(leak, Leak::Memory { .. })),
            "{pinned:?}"
        );
    }
}

#[test]
fn a_filter_leaves_the_rest_of_the_file_alone() {
    let (storage, weights) = Storage::of(model()).open();
    let weights = weights.unwrap();
    let (_sim, backend) = machine(Gpu::H200);
    let before = storage.read.load(Ordering::Relaxed);
    let options =
        LoadOptions::default().only(|name| name.starts_with("d.") || name.starts_with("j."));
    let tensors = weights.load(&backend, BufferKind::Cuda, &options).unwrap();
    let names: Vec<_> = tensors.keys().map(|name| &**name).collect();
    assert_eq!(names, ["d.half", "j.last"]);
    assert_eq!(bytes_of(&tensors["j.last"]), [byte(9, 0)]);
    assert_eq!(storage.read.load(Ordering::Relaxed) - before, 257);
    let none = LoadOptions::default().only(|_| false);
    assert!(
        weights
            .load(&backend, BufferKind::Cuda, &none)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn progress_reaches_the_end_and_stops_a_load() {
    let (_storage, weights) = Storage::of(model()).open();
    let weights = weights.unwrap();
    let total = weights.size_bytes();
    for (gpu, kind) in [
        (Gpu::H200, BufferKind::Cuda),
        (Gpu::H200, BufferKind::Host),
        (Gpu::Gh200, BufferKind::Unified),
    ] {
        let (_sim, backend) = machine(gpu);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let its = Arc::clone(&seen);
        let options = LoadOptions::default().threads(1).progress(move |done, of| {
            its.lock().unwrap().push((done, of));
            ControlFlow::Continue(())
        });
        weights.load(&backend, kind, &options).unwrap();
        let seen = seen.lock().unwrap();
        assert!(
            seen.is_sorted() && seen.last() == Some(&(total, total)),
            "{seen:?}"
        );
        let options = options.progress(|done, _| match done < 200_000 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        let error = weights.load(&backend, kind, &options).unwrap_err();
        assert!(
            matches!(error, Error::Stopped { done_bytes, total_bytes } if done_bytes >= 200_000 && total_bytes == total),
            "{error}"
        );
    }
}

#[test]
fn a_mapped_file_is_the_buffer_on_devices_that_read_it() {
    let folder = Folder::new();
    let path = folder.file("model.safetensors", &model());
    let weights = Weights::open([path]).unwrap();
    for gpu in GPUS {
        let (_sim, backend) = machine(gpu);
        let read = Arc::new(AtomicU64::new(0));
        let its = Arc::clone(&read);
        // SAFETY: nothing changes the file.
        #[allow(unsafe_code, reason = "maps the file of this test")]
        let options = unsafe { LoadOptions::default().map_files() }.progress(move |done, _| {
            its.store(done, Ordering::Relaxed);
            ControlFlow::Continue(())
        });
        let tensors = weights
            .load(&backend, BufferKind::Unified, &options)
            .unwrap();
        let is_mapped = backend.device().capabilities().pageable_memory_access;
        for (number, name) in NAMES.iter().enumerate() {
            let tensor = &tensors[*name];
            let right = written(number, tensor.info().size_bytes());
            assert!(bytes_of(tensor) == right, "{name} on {gpu:?}");
        }
        let each = weights.load_each(
            &backend,
            BufferKind::Unified,
            &options.clone().bytes_in_flight(1),
        );
        assert_eq!(each.unwrap().map(Result::unwrap).count(), NAMES.len());
        // The header has an odd length, so that only bytes are aligned.
        if is_mapped {
            assert!(read.load(Ordering::Relaxed) < weights.size_bytes());
            assert!(
                tensors["c.bytes"]
                    .buffer()
                    .write()
                    .unwrap()
                    .bytes_mut()
                    .set_zero()
                    .is_err()
            );
        } else {
            assert_eq!(read.load(Ordering::Relaxed), weights.size_bytes());
        }
    }
}

#[test]
fn memory_of_the_caller_is_filled_or_refused() {
    let (storage, weights) = Storage::of(model()).open();
    let weights = weights.unwrap();
    let names = ["i.large", "b.small", "f.scalar", "e.empty"];
    let sizes = names.map(|name| weights.tensor(name).unwrap().size_bytes());
    let before = storage.read.load(Ordering::Relaxed);
    let right = |name: &str, bytes: &[u8]| {
        let number = NAMES.iter().position(|known| *known == name).unwrap();
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, found)| *found == byte(number, at)),
            "{name}"
        );
    };
    let mut host = sizes.map(|bytes| vec![0; bytes]);
    let targets = names
        .into_iter()
        .zip(host.iter_mut().map(|bytes| BufferMemoryMut::Host(bytes)));
    weights
        .load_into(targets.collect(), &LoadOptions::default())
        .unwrap();
    names
        .iter()
        .zip(&host)
        .for_each(|(name, bytes)| right(name, bytes));

    let (_sim, backend) = machine(Gpu::H200);
    let mut buffers =
        sizes.map(|bytes| DeviceBuffer::<u8>::zeroed(backend.device(), bytes).unwrap());
    let views = buffers
        .iter_mut()
        .map(|buffer| BufferMemoryMut::Cuda(buffer.as_view_mut()));
    weights
        .load_into(
            names.into_iter().zip(views).collect(),
            &LoadOptions::default(),
        )
        .unwrap();
    names
        .iter()
        .zip(&buffers)
        .for_each(|(name, buffer)| right(name, &buffer.to_vec().unwrap()));
    let total: usize = sizes.iter().sum();
    assert_eq!(
        storage.read.load(Ordering::Relaxed) - before,
        2 * total as u64
    );

    let [mut a, mut b] = [vec![0; 60], vec![0; 60]];
    let mut refused = |names: [&str; 2], bytes: usize, reason: &str| {
        let memory = [
            BufferMemoryMut::Host(&mut a[..bytes]),
            BufferMemoryMut::Host(&mut b[..8]),
        ];
        let targets = names.into_iter().zip(memory).collect();
        let error = weights
            .load_into(targets, &LoadOptions::default())
            .unwrap_err();
        assert!(
            matches!(&error, Error::Refused { tensor, reason: found } if tensor == names[0] && found.contains(reason)),
            "{error}"
        );
    };
    refused(
        ["b.small", "f.scalar"],
        59,
        "it has 60 bytes, and the memory is 59 bytes",
    );
    refused(["absent", "f.scalar"], 60, "the files do not have it");
    refused(["f.scalar", "f.scalar"], 8, "one memory for each name");
    let memory = vec![
        ("f.scalar", BufferMemoryMut::Host(&mut host[2])),
        ("b.small", BufferMemoryMut::Cuda(buffers[1].as_view_mut())),
    ];
    let error = weights
        .load_into(memory, &LoadOptions::default())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("all of the host or all of a device"),
        "{error}"
    );
    assert_eq!(
        storage.read.load(Ordering::Relaxed) - before,
        2 * total as u64
    );
    // Tensors without elements are neighbours, and each has memory of its own.
    let tensors: [(_, _, &[usize], _); 3] = [
        ("a", "F32", &[0], 0),
        ("b", "F32", &[0, 2], 0),
        ("c", "U8", &[3], 3),
    ];
    let (_storage, weights) = Storage::of(safetensors(&tensors)).open();
    let mut bytes = [0; 3];
    let host = |bytes| BufferMemoryMut::Host(bytes);
    let targets = vec![
        ("a", host(&mut [][..])),
        ("b", host(&mut [])),
        ("c", host(&mut bytes)),
    ];
    weights
        .unwrap()
        .load_into(targets, &LoadOptions::default())
        .unwrap();
    assert_eq!(bytes, [0, 1, 2].map(|at| byte(2, at)));
}

/// CUDA does not know memory of the system, so other libraries refuse it.
#[test]
fn managed_memory_is_one_of_cuda_on_each_device() {
    let file = safetensors(&[
        ("small", "F32", &[4], 16),
        ("large", "U8", &[3 << 20], 3 << 20),
    ]);
    for gpu in [Gpu::H200, Gpu::Gh200, Gpu::Gb10] {
        let (_sim, backend) = machine(gpu);
        let weights = Storage::of(file.clone()).open().1.unwrap();
        let options = LoadOptions::default().managed(true);
        let tensors = weights
            .load(&backend, BufferKind::Unified, &options)
            .unwrap();
        for tensor in tensors.values() {
            let held = tensor.buffer().read().unwrap();
            let BufferMemory::Cuda(view) = held.bytes().memory() else {
                panic!("{gpu:?}");
            };
            assert_eq!(view.kind(), MemoryKind::Managed, "{gpu:?}");
        }
        assert_eq!(bytes_of(&tensors["small"]), written(0, 16));
        assert_eq!(bytes_of(&tensors["large"])[..99], written(1, 99));
    }
}

/// They behave as two buffers of their own: one kernel may update both.
#[test]
fn small_tensors_of_a_file_have_locks_names_and_uses_of_their_own() {
    let folder = Folder::new();
    let file = safetensors(&[("weight", "F32", &[4], 16), ("bias", "F32", &[4], 16)]);
    let weights = Weights::open([folder.file("model.safetensors", &file)]).unwrap();
    for gpu in GPUS {
        let (sim, backend) = machine(gpu);
        for kind in BufferKind::ALL {
            let tensors = load(&weights, &backend, kind);
            let (weight, bias) = (tensors["weight"].buffer(), tensors["bias"].buffer());
            let reader = weight.read().unwrap();
            let writer = bias.try_write();
            assert!(writer.is_ok(), "V01: {}", writer.unwrap_err());
            drop((reader, writer));
            assert!(
                weight.is_unique() && !weight.shares_storage(bias),
                "V01: storage"
            );
            let ([], [mut both, other]) = SharedBuffer::lock([], [weight, bias]).unwrap();
            if kind != BufferKind::Host {
                assert_eq!(
                    (both.bytes().name(), other.bytes().name()),
                    (Some("weight"), Some("bias")),
                    "{kind}"
                );
            }
            drop(other);
            if kind == BufferKind::Unified && gpu == Gpu::H200 {
                backend.synchronize().unwrap();
                let paused = sim.pause();
                let stream = backend.device().stream();
                let filled = both.typed_mut::<f32>().unwrap().fill_on(1.5, stream);
                filled.unwrap();
                drop(both);
                // The host does not wait for the other tensor's work.
                let first = f32::from_le_bytes([0, 1, 2, 3].map(|at| byte(1, at)));
                assert_eq!(bias.host::<f32>().unwrap()[0], first);
                drop(paused);
                assert_eq!(*weight.host::<f32>().unwrap(), [1.5; 4]);
            }
        }
    }
}
