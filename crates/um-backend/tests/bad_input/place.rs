//! Advice and prefetches for devices that do not exist.

use um_backend::{Advice, Buffer, CudaError, Location, MemoryAdvice, PrefetchBatch};

use crate::world::{Case, World, cases, run};

type Placed = fn(&mut World, usize) -> Result<(), CudaError>;

const FUNCTIONS: [(&str, Placed); 8] = [
    ("UnifiedBuffer::prefetch_to_device", |w, at| {
        w.unified.prefetch_to_device(Some(at)).map(drop)
    }),
    ("UnifiedBuffer::set_memory_advice", |w, at| {
        let advice = MemoryAdvice::SetAccessedBy;
        w.unified.set_memory_advice(advice, Some(at)).map(drop)
    }),
    ("UnifiedBuffer::set_preferred_location", |w, at| {
        w.unified.set_preferred_location(at).map(drop)
    }),
    ("UnifiedBuffer::set_accessed_by", |w, at| {
        w.unified.set_accessed_by(at).map(drop)
    }),
    ("UnifiedBuffer::unset_accessed_by", |w, at| {
        w.unified.unset_accessed_by(at).map(drop)
    }),
    ("CudaBackend::set_memory_advice", |w, at| {
        // This advice does not use the ordinal, which is checked nevertheless.
        let advice = MemoryAdvice::SetReadMostly;
        w.backend
            .set_memory_advice(&w.unified, advice, Some(at))
            .map(drop)
    }),
    ("CudaBackend::prefetch_to_device", |w, at| {
        w.backend.prefetch_to_device(&w.unified, Some(at)).map(drop)
    }),
    ("CudaDevice::sibling", |w, at| {
        w.backend.device().sibling(at).map(drop)
    }),
];

#[test]
fn devices_that_are_not_there() {
    // Cut to 32 bits, the third one would be device 0.
    for ordinal in [2, u32::MAX as usize, 1 << 32, usize::MAX] {
        let case = |(of, call): (&'static str, Placed)| Case {
            of,
            given: format!("device {ordinal}"),
            call: Box::new(move |world| call(world, ordinal)),
            is: "NoSuchDevice",
            says: vec![format!("there is no device {ordinal}: the runtime has 2")],
        };
        run(FUNCTIONS.into_iter().map(case).collect());
    }
}

#[test]
fn locations_that_are_not_there() {
    run(cases! {
        "UnifiedBuffer::prefetch", "a device too many": |w| w.unified.prefetch_on(Location::Device(2), w.backend.device().stream())
            => NoSuchDevice, ["there is no device 2: the runtime has 2"];
        "UnifiedBuffer::advise", "u32::MAX": |w| w.unified.advise(Advice::SetAccessedBy(Location::Device(u32::MAX)))
            => NoSuchDevice, ["there is no device 4294967295: the runtime has 2"];
        "PrefetchBatch::prefetch", "u32::MAX": |w| {
            let mut batch = PrefetchBatch::new();
            batch.add(&w.unified as &dyn Buffer<f32>);
            batch.prefetch_on(Location::Device(u32::MAX), w.backend.device().stream())
        } => NoSuchDevice, ["there is no device 4294967295: the runtime has 2"];
    });
}

#[test]
fn what_was_not_applied_and_is_required() {
    run(cases! {
        "HintOutcome::require", "advice for mapped memory": |w| Ok(w.mapped.advise(Advice::SetReadMostly)?.require()?)
            => NotSupported, ["SetReadMostly", "managed memory", "mapped pinned memory"];
    });
}
