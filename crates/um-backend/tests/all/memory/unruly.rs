//! Implementations that return different values each time, use other buffers inside calls, and panic: they can only cause their own errors
//! and panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use um_backend::{
    Buffer, BufferKind, CudaBackend, DType, Device, HostBuffer, Location, PrefetchBatch, Result,
    Stream, conformance,
    memory::{BufferMemory, BufferMemoryMut},
};

use crate::support::on_each;

/// Host, device, managed and pinned memory of different lengths. Each call returns one of them.
#[derive(Debug)]
struct Unruly {
    backend: CudaBackend,
    host: Vec<f32>,
    others: [Box<dyn Buffer<f32>>; 3],
    state: AtomicU64,
    /// One call in `panics` panics.
    panics: u64,
}

impl Unruly {
    fn new(backend: &CudaBackend, seed: u64, panics: u64) -> Self {
        let make = |kind, len| backend.create(kind, len).unwrap();
        Self {
            backend: backend.clone(),
            host: vec![1.0; 700],
            others: [
                make(BufferKind::Unified, 1000),
                make(BufferKind::Cuda, 500),
                make(BufferKind::Pinned, 4097),
            ],
            state: AtomicU64::new(seed),
            panics,
        }
    }

    /// A number below `end`. Before that it may panic, or use another buffer.
    fn number(&self, end: u64) -> u64 {
        let state = self.state.load(Ordering::Relaxed);
        let next = state.wrapping_mul(6_364_136_223_846_793_005);
        self.state.store(next.wrapping_add(1), Ordering::Relaxed);
        let number = state >> 33;
        if number.is_multiple_of(self.panics) {
            resume_unwind(Box::new(()));
        }
        if number.is_multiple_of(7) {
            let mut own = self.backend.allocate_unified::<f32>(100).unwrap();
            own.fill(2.0).unwrap();
            assert_eq!(own.to_vec().unwrap(), [2.0; 100]);
            self.backend.trim();
        }
        number / 64 % end
    }
}

impl Buffer<f32> for Unruly {
    fn len(&self) -> usize {
        [0, 1, 500, 700, 1000, 4097, usize::MAX / 4, usize::MAX][self.number(8) as usize]
    }

    fn device(&self) -> Option<&Device> {
        match self.number(2) {
            0 => None,
            _ => self.others[0].device(),
        }
    }

    fn memory(&self) -> BufferMemory<'_, f32> {
        match self.number(5) {
            0 => BufferMemory::Host(&self.host),
            1 => BufferMemory::Opaque,
            other => self.others[other as usize - 2].memory(),
        }
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, f32> {
        match self.number(5) {
            0 => BufferMemoryMut::Host(&mut self.host),
            1 => BufferMemoryMut::Opaque,
            other => self.others[other as usize - 2].memory_mut(),
        }
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<f32>>> {
        let len = match self.number(2) {
            0 => len,
            _ => 3,
        };
        Ok(Box::new(HostBuffer::zeroed(len)?))
    }

    fn as_any(&self) -> &dyn Any {
        match self.number(2) {
            0 => self,
            _ => self.others[0].as_any(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn dtype(&self) -> DType {
        [DType::F32, DType::U8][self.number(2) as usize]
    }
}

type Try = fn(&mut Unruly, &mut dyn Buffer<f32>, &Stream);

const TRIES: [Try; 18] = [
    |u, _, _| drop(u.to_vec()),
    |u, _, _| drop(u.copy_to_host(&mut [0.0; 700])),
    |u, _, _| drop(u.copy_from_host(&[0.0; 700])),
    |u, _, _| drop(u.copy_from_host_at(500, &[0.0; 600])),
    |u, _, _| drop(u.fill(3.0)),
    |u, _, _| drop(u.set_zero()),
    |u, _, _| drop(u.fill_range(10..600, 3.0)),
    |u, _, _| drop(u.copy_within(10..600, 50)),
    |u, _, _| drop(u.try_clone()),
    |u, _, _| drop(u.host().map(|view| view.iter().sum::<f32>())),
    |u, _, _| drop(u.host_mut().map(|mut view| view.fill(1.0))),
    |u, _, _| drop(u.write_to(&mut Vec::new(), 0..600)),
    |u, _, _| drop(u.read_from(&mut &[1u8; 2400][..], 0..600)),
    |u, _, stream| {
        drop(u.fill_on(1.0, stream));
        drop(u.copy_from_host_on(&[1.0; 600], stream));
        drop(u.copy_to_host_on(&mut [1.0; 600], stream));
        drop(u.prefetch_range_on(0..600, Location::Host, stream));
    },
    |u, _, _| {
        drop((
            u.is_empty(),
            u.capacity(),
            u.memory().device_view().map(drop),
        ))
    },
    |u, _, stream| {
        let mut batch = PrefetchBatch::new();
        batch.add::<f32>(u as &dyn Buffer<f32>);
        for location in [Location::Device(0), Location::Host] {
            let _ = batch.prefetch_on(location, stream);
        }
    },
    |u, honest, _| drop(honest.copy_from_buffer(u)),
    |u, honest, _| {
        let _ = honest.copy_from_buffer_at(10, u, 5..600);
        let _ = u.copy_from_buffer(honest);
        let _ = u.copy_from_buffer_at(10, honest, 5..600);
    },
];

#[test]
fn a_buffer_that_answers_as_it_likes_harms_no_other() {
    on_each(|machine| {
        let backend = machine.backend();
        let stream = backend.device().stream();
        for seed in 1..60u64 {
            let panics = if seed % 2 == 0 { 23 } else { u64::MAX };
            let mut unruly = Unruly::new(&backend, seed, panics);
            let kind = BufferKind::ALL[seed as usize % BufferKind::ALL.len()];
            let mut honest = backend.create::<f32>(kind, 1000).unwrap();
            let mut bystander = backend.allocate_unified::<f32>(1000).unwrap();
            bystander.fill(9.0).unwrap();
            for attempt in TRIES {
                let attempt = || attempt(&mut unruly, &mut *honest, stream);
                let _ = catch_unwind(AssertUnwindSafe(attempt));
            }
            let make = |len: usize| -> Result<Box<dyn Buffer<f32>>> {
                Ok(Box::new(Unruly::new(&backend, seed + len as u64, panics)))
            };
            let told = catch_unwind(AssertUnwindSafe(|| conformance::all(&make).is_err()));
            assert!(told.unwrap_or(true), "the contract holds");
            drop(unruly);
            assert_eq!(honest.to_vec().unwrap().len(), 1000);
            assert_eq!(bystander.to_vec().unwrap(), [9.0; 1000]);
        }
    });
}
