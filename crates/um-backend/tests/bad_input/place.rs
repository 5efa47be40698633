//! Devices that are not there, for advice and prefetches.

use um_backend::{Buffer, MemoryAdvice};

use crate::world::{Case, World, cases, run};
use um_backend::CudaError;

type Placed = fn(&mut World, usize) -> Result<(), CudaError>;

const FUNCTIONS: [(&str, Placed); 10] = [
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
        // Not used with this advice, and refused all the same.
        let advice = MemoryAdvice::SetReadMostly;
        w.backend
            .set_memory_advice(&w.unified, advice, Some(at))
            .map(drop)
    }),
    ("CudaBackend::prefetch_to_device", |w, at| {
        w.backend.prefetch_to_device(&w.unified, Some(at)).map(drop)
    }),
    ("CudaBackend::prefetch_all_to_device", |w, at| {
        let all = [&w.unified];
        w.backend.prefetch_all_to_device(&all, Some(at)).map(drop)
    }),
    ("PrefetchBatch::to_device", |w, at| {
        let mut batch = w.backend.prefetch_batch();
        batch.add(&w.unified as &dyn Buffer<f32>);
        batch.to_device(Some(at)).map(drop)
    }),
    ("CudaDevice::sibling", |w, at| {
        w.backend.device().sibling(at).map(drop)
    }),
];

#[test]
fn devices_that_are_not_there() {
    // The third is device 0 to who cuts it to 32 bits.
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
fn what_was_not_applied_and_is_required() {
    run(cases! {
        "Placement::require", "advice for mapped memory": |w| w.mapped.set_read_mostly()?.require()
            => NotSupported, ["SetReadMostly", "managed memory", "mapped pinned memory"];
    });
}
