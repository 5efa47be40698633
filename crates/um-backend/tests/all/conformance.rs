//! The contract of `Buffer` for every implementation, and for copies between any two of them.

use um_backend::conformance::{self, Make};
use um_backend::sim::Builder;
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaBuffer, CudaError, Element, HostBuffer, PinnedBuffer,
    UnifiedBuffer,
    cuda_um::{Error, Placement, UnifiedOptions},
};

use crate::support::opaque::{Fault, OpaqueBuffer};
use crate::support::{Machine, on_each, on_each_preset};

fn opaque<T: Element>(len: usize) -> Result<Box<dyn Buffer<T>>, CudaError> {
    Ok(Box::new(OpaqueBuffer::new(len)))
}

fn check(what: &str, verdict: conformance::Verdict) {
    if let Err(failure) = verdict {
        panic!("{what}: {failure}");
    }
}

/// A unified buffer in mapped memory, as requested.
fn mapped<T: Element>(backend: &CudaBackend, len: usize) -> Result<Box<dyn Buffer<T>>, CudaError> {
    let device = backend.device();
    let options = UnifiedOptions::default().placement(Placement::Mapped);
    let buffer = UnifiedBuffer::zeroed_with(device, len, options)?;
    assert_eq!(buffer.placement().placement, Placement::Mapped);
    Ok(Box::new(buffer))
}

type Maker<'a> = Box<dyn Fn(usize) -> Result<Box<dyn Buffer<f32>>, CudaError> + 'a>;

/// Each kind of each backend, and an implementation from outside.
fn kinds(backends: &[CudaBackend]) -> Vec<(String, Maker<'_>)> {
    let mut kinds = Vec::new();
    for (number, backend) in backends.iter().enumerate() {
        for kind in BufferKind::ALL {
            let make: Maker<'_> = Box::new(move |len| backend.create(kind, len));
            kinds.push((format!("{kind} of {number}"), make));
        }
        let make: Maker<'_> = Box::new(move |len| mapped(backend, len));
        kinds.push((format!("mapped of {number}"), make));
    }
    kinds.push(("opaque".to_owned(), Box::new(opaque)));
    kinds
}

fn every_pair(backends: &[CudaBackend]) {
    let kinds = kinds(backends);
    for (source_name, source) in &kinds {
        for (target_name, target) in &kinds {
            let what = format!("from {source_name} to {target_name}");
            check(&what, conformance::pair(target, source));
        }
    }
}

fn every_kind<T: Element>(machine: &Machine) {
    let backend = machine.backend();
    for kind in BufferKind::ALL {
        let make = |len| backend.create::<T>(kind, len);
        check(&format!("{kind} of {}", T::DTYPE), conformance::all(&make));
    }
    let mapped = |len| mapped::<T>(&backend, len);
    check(&format!("mapped {}", T::DTYPE), conformance::all(&mapped));
    let pooled = machine.pooled();
    let from_pool = |len| pooled.create::<T>(BufferKind::Unified, len);
    check(
        &format!("pooled {}", T::DTYPE),
        conformance::all(&from_pool),
    );
}

#[test]
fn every_kind_of_f32() {
    on_each(every_kind::<f32>);
    check("opaque", conformance::all::<f32>(&opaque));
}

#[test]
fn every_kind_of_f16_and_u8() {
    on_each(every_kind::<half::f16>);
    on_each(every_kind::<u8>);
}

#[test]
fn every_pair_of_kinds() {
    on_each(|machine| every_pair(&[machine.backend()]));
    on_each(|machine| every_pair(&[machine.pooled()]));
}

#[test]
fn every_pair_on_two_devices() {
    let two = |builder: Builder| builder.devices(2);
    on_each_preset(two, |machine| {
        let backends = machine.backends();
        let ordinals: Vec<_> = backends.iter().map(|b| b.device().ordinal()).collect();
        assert_eq!(ordinals, [0, 1]);
        every_pair(&backends);
    });
}

/// Two backends with two runtimes: copies between their buffers go through the host.
#[test]
fn every_pair_of_two_runtimes() {
    on_each(|machine| every_pair(&[machine.backend(), machine.on_another_runtime()]));
}

#[test]
fn every_kind_downcasts_to_its_type() {
    fn downcasts<B: Buffer<f32> + 'static>(make: Make<'_, f32>) {
        check("downcast", conformance::downcasts_to::<B, f32>(make));
    }
    on_each(|machine| {
        let backend = machine.backend();
        let of = |kind| move |len| -> Result<_, CudaError> { machine.backend().create(kind, len) };
        assert_eq!(backend.device().ordinal(), 0);
        downcasts::<UnifiedBuffer<f32>>(&of(BufferKind::Unified));
        downcasts::<CudaBuffer<f32>>(&of(BufferKind::Cuda));
        downcasts::<HostBuffer<f32>>(&of(BufferKind::Host));
        downcasts::<PinnedBuffer<f32>>(&of(BufferKind::Pinned));

        let host = of(BufferKind::Host);
        let failure = conformance::downcasts_to::<CudaBuffer<f32>, f32>(&host).unwrap_err();
        assert_eq!(failure.rule(), conformance::Rule::Properties);
    });
}

/// The suite finds each fault, and names the rule and the values.
#[test]
fn the_suite_finds_faults() {
    use conformance::Rule;
    for (fault, rule) in [
        (Fault::Dirty, Rule::NewHoldsZeros),
        (Fault::SmallCapacity, Rule::Properties),
        (Fault::OtherDType, Rule::Properties),
        (Fault::AnyOfPart, Rule::Properties),
        (Fault::ShortWrite, Rule::Operations),
        (Fault::ForgetsOffset, Rule::Operations),
        (Fault::ForwardCopyWithin, Rule::Operations),
        (Fault::ForgetsOneWrite, Rule::InOrder),
        (Fault::CutsLengths, Rule::Refusals),
        (Fault::WritesBeforeChecking, Rule::Refusals),
        (Fault::OtherError, Rule::Refusals),
        (Fault::ShortClone, Rule::Refusals),
        (Fault::DirtyClone, Rule::Clones),
        (Fault::OneThread, Rule::Threads),
    ] {
        let make = |len| -> Result<Box<dyn Buffer<f32>>, CudaError> {
            Ok(Box::new(OpaqueBuffer::with(fault, len)))
        };
        let Err(failure) = conformance::all::<f32>(&make) else {
            panic!("{fault:?} was not found");
        };
        assert_eq!(failure.rule(), rule, "{fault:?}: {failure}");
        if fault == Fault::ShortWrite {
            let failure = conformance::pair::<f32>(&make, &make).unwrap_err();
            assert_eq!(failure.rule(), Rule::Pairs, "{failure}");
        }
    }
}

/// A failed allocation is a failure with its cause.
#[test]
fn the_suite_passes_errors_on() {
    let make = |len| -> Result<Box<dyn Buffer<f32>>, CudaError> {
        Err(Error::TooLarge {
            len,
            element_bytes: 4,
        })
    };
    let failure = conformance::all::<f32>(&make).unwrap_err();
    assert!(matches!(failure.cause(), Some(Error::TooLarge { .. })));
}
