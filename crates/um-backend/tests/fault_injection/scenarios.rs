//! Typical work of a tensor framework, through `dyn Buffer` if possible.

use crate::support::opaque::OpaqueBuffer;
use crate::world::{LEN, MACHINES, World};
use cuda_um_testkit::faults::check::Scenario;
use std::sync::Arc;
use um_backend::{
    Advice, Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaError, DType, ErasedBuffer,
    HostBuffer, HostRef, Location, MemoryAdvice, PrefetchBatch,
    cuda_um::{AccessPattern, RegisteredBuffer, buffer::HostOwned},
};

type Result<T = ()> = std::result::Result<T, CudaError>;

macro_rules! scenarios {
    ($($name:ident)*) => {
        pub const SCENARIOS: &[Scenario<World>] = &[$(Scenario {
            name: stringify!($name),
            machines: &MACHINES,
            run: $name,
        }),*];
    };
}

scenarios! {
    every_kind_by_its_trait
    every_pair_copied
    through_a_stranger
    advised_and_prefetched
    a_pool_and_a_batch
    one_after_the_other
    the_callers_own_memory
    from_open_to_end
    parts_files_and_streams
    erased_and_shared
}

fn make(backend: &CudaBackend, kind: BufferKind, value: f32) -> Result<Box<dyn Buffer<f32>>> {
    let mut buffer = backend.create(kind, LEN)?;
    buffer.fill(value)?;
    Ok(buffer)
}

fn every_kind_by_its_trait(world: &World) -> Result {
    for kind in BufferKind::ALL {
        let mut buffer = world.far.create::<f32>(kind, LEN)?;
        buffer.copy_from_host(&[1.5; LEN])?;
        buffer.copy_from_host_at(10, &[4.0; 5])?;
        let mut part = [0.0; 6];
        buffer.copy_to_host_at(9, &mut part)?;
        assert_eq!(part, [1.5, 4.0, 4.0, 4.0, 4.0, 4.0]);
        let mut other = buffer.clone_empty(LEN)?;
        assert_eq!(other.to_vec()?, [0.0; LEN]);
        other.copy_from_buffer(&*buffer)?;
        buffer.set_zero()?;
        assert_eq!(other.to_vec()?[8..11], [1.5, 1.5, 4.0]);
        assert_eq!(buffer.to_vec()?, [0.0; LEN]);
    }
    Ok(())
}

/// Copies between any two kinds. The target is on the last device.
fn every_pair_copied(world: &World) -> Result {
    for from in BufferKind::ALL {
        let source = make(&world.backend, from, 3.0)?;
        for to in BufferKind::ALL {
            let mut target = make(&world.far, to, 8.0)?;
            target.copy_from_buffer_at(1, &*source, 0..LEN - 1)?;
            let found = target.to_vec()?;
            assert_eq!((found[0], found[1], found[LEN - 1]), (8.0, 3.0, 3.0));
        }
    }
    Ok(())
}

/// A buffer of another implementation: every copy is staged through host memory.
fn through_a_stranger(world: &World) -> Result {
    let mut stranger = OpaqueBuffer::<f32>::new(LEN);
    for kind in BufferKind::ALL {
        let mut buffer = make(&world.backend, kind, 5.0)?;
        stranger.copy_from_buffer(&*buffer)?;
        buffer.fill(1.0)?;
        buffer.copy_from_buffer(&stranger)?;
        assert_eq!(buffer.to_vec()?, [5.0; LEN]);
    }
    Ok(())
}

/// The same code also runs on a GPU without migration. Advice and prefetches are then not applied.
fn advised_and_prefetched(world: &World) -> Result {
    let backend = &world.backend;
    let mut buffer = backend.allocate_unified::<f32>(LEN)?;
    buffer.as_slice_mut()?.fill(2.0);
    backend.set_memory_advice(&buffer, MemoryAdvice::SetPreferredLocation, Some(0))?;
    buffer.advise(Advice::SetReadMostly)?;
    buffer.prefetch_to_device(None)?;
    world.double.launch(backend.device(), &mut buffer)?;
    buffer.prefetch_to_host()?;
    buffer.advise(Advice::UnsetReadMostly)?;
    assert_eq!(buffer.as_slice()?[..], [4.0; LEN]);
    let scores = backend.allocate_unified_for::<f32>(LEN, AccessPattern::ReadBack)?;
    assert_eq!(scores.as_slice()?[..], [0.0; LEN]);
    scores.close()?;
    buffer.close()
}

fn a_pool_and_a_batch(world: &World) -> Result {
    let backend = &world.pooled;
    for round in 0..2u8 {
        let buffers = [0, 1].map(|index| -> Result<_> {
            let mut buffer = backend.allocate_unified::<f32>(LEN)?;
            buffer.copy_from_host(&[f32::from(round + index); LEN])?;
            Ok(buffer)
        });
        let [first, second] = buffers;
        let (first, second) = (first?, second?);
        let alone = world.backend.allocate_unified::<u32>(LEN)?;
        let stream = backend.device().stream();
        let mut batch = PrefetchBatch::new();
        batch.add(&first).add(&second).add(&alone);
        batch.prefetch_on(Location::Device(0), stream)?;
        batch.prefetch_on(Location::Host, stream)?;
        assert_eq!(first.as_slice()?[..], [f32::from(round); LEN]);
        assert_eq!(second.as_slice()?[..], [f32::from(round + 1); LEN]);
    }
    backend.trim();
    Ok(())
}

/// Work on every kind of buffer, each of which is dropped while its work is enqueued.
fn one_after_the_other(world: &World) -> Result {
    let device = world.backend.device();
    let mut last = HostBuffer::from_vec(vec![1.0f32; LEN]);
    for kind in [BufferKind::Cuda, BufferKind::Unified, BufferKind::Pinned] {
        let mut buffer = world.backend.create::<f32>(kind, LEN)?;
        buffer.copy_from_buffer(&last)?;
        world.double.launch(device, &mut *buffer)?;
        let mut next = buffer.clone_empty(LEN)?;
        next.copy_from_buffer(&*buffer)?;
        drop(buffer);
        next.copy_to_host(last.as_slice_mut())?;
    }
    assert_eq!(last.as_slice(), [8.0; LEN]);
    Ok(())
}

fn the_callers_own_memory(world: &World) -> Result {
    let backend = &world.backend;
    if !backend.device().capabilities().host_register {
        return Ok(());
    }
    let source = make(backend, BufferKind::Cuda, 6.0)?;
    let mut memory = vec![0.0f32; LEN];
    source.copy_to_host(&mut memory)?;
    let stream = backend.device().stream();
    let mut registered = RegisteredBuffer::from_vec(backend.device(), vec![0.0f32; LEN])?;
    let mut target = backend.create_buffer::<f32>(LEN, DType::F32)?;
    RegisteredBuffer::scope(backend.device(), &mut memory, |registered| {
        stream.copy(&*registered, &mut target)
    })??;
    stream.copy(&target, &mut registered)?;
    assert_eq!(registered.into_vec()?, [6.0; LEN]);
    target.close()
}

/// Opens and drops a backend, to cover the calls of both.
fn from_open_to_end(world: &World) -> Result {
    let config = CudaBackendConfig::default().simulator(world.sim.clone());
    let backend = CudaBackend::initialize_blocking(config)?;
    let runtime = backend.device().runtime().clone();
    let lived = (|| {
        let sibling = backend.device().sibling(0)?;
        sibling.memory_info()?;
        let buffer = make(&backend, BufferKind::Unified, 1.0)?;
        assert_eq!(buffer.to_vec()?, [1.0; LEN]);
        Ok(())
    })();
    backend.trim();
    drop(backend);
    let reclaimed = runtime.reclaim();
    lived.and(reclaimed)
}

/// Ranges, slices for the host, files and another stream, for every kind.
fn parts_files_and_streams(world: &World) -> Result {
    let stream = world.far.device().create_stream()?;
    for kind in BufferKind::ALL {
        let mut buffer = world.far.create::<f32>(kind, LEN)?;
        buffer.fill_range(0..10, 1.0)?;
        buffer.copy_within(0..10, 5)?;
        let mut view = buffer.host_mut()?;
        assert_eq!(view[..16], [[1.0; 15].as_slice(), &[0.0]].concat()[..]);
        view[15] = 2.0;
        view.close()?;
        let mut file = Vec::new();
        buffer.write_to(&mut file, 14..16)?;
        buffer.read_from(&mut &file[..], 0..2)?;
        let mut clone = buffer.try_clone()?;
        buffer.copy_from_host_on(&[7.0; LEN], &stream)?;
        assert_eq!(clone.host()?[..3], [1.0, 2.0, 1.0]);
        clone.copy_from_buffer_on(&*buffer, &stream)?;
        buffer.prefetch_range_on(0..LEN, Location::Host, &stream)?;
        buffer.fill_on(3.0, &stream)?;
        let mut back = [0.0; LEN];
        clone.copy_to_host_on(&mut back, &stream)?;
        assert_eq!((back, buffer.read_one(LEN - 1)?), ([7.0; LEN], 3.0));
    }
    Ok(())
}

/// Storage of a dtype, which two tensors share until one writes it.
fn erased_and_shared(world: &World) -> Result {
    for kind in BufferKind::ALL {
        let bytes = [1u8; 4 * LEN];
        let first = Arc::new(world.backend.create_erased_from(kind, DType::F32, &bytes)?);
        let mut second = Arc::clone(&first);
        let written = ErasedBuffer::make_mut(&mut second)?;
        written.bytes_mut().set_zero()?;
        written.typed_mut::<f32>()?.write_one(0, 5.0)?;
        let value = f32::from_le_bytes([1; 4]);
        assert_eq!(
            HostOwned::new(Arc::clone(&first), of_f32)?[..],
            [value; LEN]
        );
        assert_eq!(
            HostOwned::new(Arc::clone(&second), of_f32)?[..2],
            [5.0, 0.0]
        );
        ErasedBuffer::make_mut(&mut second)?.copy_from(&first)?;
        assert_eq!(second.typed::<f32>()?.read_one(1)?, value);
    }
    Ok(())
}

fn of_f32(bytes: &ErasedBuffer) -> Result<HostRef<'_, f32>> {
    bytes.typed()?.host()
}
