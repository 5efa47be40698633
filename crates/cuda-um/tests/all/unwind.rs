//! Drops by a panic, on other threads and in every order: nothing is freed while in use, and nothing is leaked.

use cuda_um::{
    DeviceBuffer, HostMut, MemoryKind, Pool, PoolOptions, RegisteredBuffer, Result, UnifiedBuffer,
    buffer::HostOwnedMut,
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, simulated};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::path::Path;

/// The panic on purpose.
struct OnPurpose;

/// Runs code that ends with [`OnPurpose`].
fn unwinds(body: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(body)).unwrap_err();
    assert!(panic.is::<OnPurpose>(), "another panic");
}

/// claim 20
#[test]
fn a_panic_drops_guards_buffers_streams_and_pools() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        let runtime = device.runtime().clone();
        let mut kept = UnifiedBuffer::from_slice(&device, &[3u32; 1000]).unwrap();
        unwinds(|| {
            let stream = device.create_stream().unwrap();
            let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
            let add = Add::load(&device);
            let mut pooled = UnifiedBuffer::<u32>::zeroed_in(&pool, 1000).unwrap();
            let mut in_use = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
            let paused = sim.pause();
            add.run(&stream, &mut pooled, 1000, 1);
            add.run(&stream, &mut in_use, 1000, 1);
            drop(paused);
            let mut guard = kept.host_mut().unwrap();
            guard[0] = 4;
            panic_any(OnPurpose);
        });
        // The guard is dropped, so it no longer keeps the device idle.
        kept.fill_on(5, &stream).unwrap();
        assert_eq!(kept.host().unwrap()[..2], [5, 5]);
        drop((kept, stream, device));
        runtime.reclaim().unwrap();
    }
}

/// The machine checks that the owner of each guard is freed.
#[test]
fn a_panic_in_the_closures_of_an_owned_guard_drops_its_owner() {
    let (_sim, device, _stream) = simulated(Gpu::H200);
    let owner = || Box::new(DeviceBuffer::<u32>::zeroed(&device, 4).unwrap());
    unwinds(|| {
        drop(HostOwnedMut::<u32, _>::new(owner(), |_| -> Result<_> {
            panic_any(OnPurpose)
        }))
    });
    let guard = || {
        let copy = || HostMut::of_copy(vec![1u32; 4], |_| panic_any(OnPurpose));
        HostOwnedMut::new(owner(), |_| -> Result<_> { Ok(copy()) }).unwrap()
    };
    unwinds(|| drop(guard()));
    unwinds(|| guard().close().unwrap());
}

#[test]
fn a_copy_is_written_back_if_no_panic_began_while_its_guard_lived() {
    struct Writes<'a>(&'a mut Vec<u32>);
    impl Drop for Writes<'_> {
        fn drop(&mut self) {
            let mut guard = HostMut::of_copy(vec![0], |elements| {
                self.0.extend(elements);
                Ok(())
            });
            guard[0] = 7;
        }
    }
    let mut written = Vec::new();
    unwinds(|| {
        let _writes = Writes(&mut written);
        panic_any(OnPurpose);
    });
    assert_eq!(written, [7], "a guard of a destructor that the panic runs");
    unwinds(|| {
        let _guard = HostMut::of_copy(vec![8], |elements| {
            written.extend(elements);
            Ok(())
        });
        panic_any(OnPurpose);
    });
    assert_eq!(written, [7]);
}

/// claim 39
#[test]
fn a_panic_in_a_scope_of_registered_memory_waits_and_unregisters() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    let runtime = device.runtime().clone();
    let add = Add::load(&device);
    let mut memory = vec![0u32; 5000];
    unwinds(|| {
        RegisteredBuffer::scope(&device, &mut memory, |buffer| {
            for _ in 0..20 {
                add.run(&stream, &mut *buffer, 5000, 1);
            }
            panic_any(OnPurpose)
        })
        .unwrap()
    });
    // All work is done when the caller can use the memory again.
    assert_eq!(memory, [20; 5000]);
    drop((add, stream, device));
    runtime.reclaim().unwrap();
}

/// Every order of `0..count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1).into_iter();
    shorter
        .flat_map(|order| {
            (0..count).map(move |at| {
                let mut order = order.clone();
                order.insert(at, count - 1);
                order
            })
        })
        .collect()
}

/// The last one waits for the work, and nothing is left.
#[test]
fn handles_go_in_every_order() {
    let all = orders(6);
    assert_eq!(all.len(), 720);
    for order in all {
        let (sim, device, stream) = simulated(Gpu::H200);
        let pools = [MemoryKind::Managed, MemoryKind::Device]
            .map(|kind| Pool::new(&device, kind, PoolOptions::default()).unwrap());
        let mut own = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let mut pooled = (
            UnifiedBuffer::<u32>::zeroed_in(&pools[0], 1000).unwrap(),
            DeviceBuffer::<u32>::zeroed_in(&pools[1], 1000).unwrap(),
        );
        device.synchronize().unwrap();
        let _held = sim.hold(0);
        own.fill_on(1, &stream).unwrap();
        pooled.0.fill_on(1, &stream).unwrap();
        pooled.1.fill_on(1, &stream).unwrap();
        let mut handles: [Option<Box<dyn Any>>; 6] = [
            Some(Box::new(device.runtime().clone())),
            Some(Box::new(device)),
            Some(Box::new(stream)),
            Some(Box::new(pools)),
            Some(Box::new(pooled)),
            Some(Box::new(own)),
        ];
        for at in &order {
            drop(handles[*at].take());
        }
        assert_eq!(sim.leaks(), [], "{order:?}");
    }
}

/// claim 38
#[test]
fn one_file_calls_tracing() {
    fn look(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                look(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            // The type of a field is not a call.
            let text = text.replace("tracing::field::", "");
            let code = text.lines().filter(|line| !line.trim().starts_with("//"));
            if code.clone().any(|line| line.contains("tracing")) {
                found.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if !root.exists() {
        return eprintln!("NOT RUN: the sources are not on this machine");
    }
    let mut found = Vec::new();
    look(&root, &mut found);
    assert_eq!(found, ["telemetry.rs"]);
}
