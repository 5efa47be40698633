//! The contract of `Buffer` for every implementation, and for copies between any two of them.

use um_backend::conformance::{self, Make};
use um_backend::sim::Builder;
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaBuffer, CudaError, DType, Element, ErasedBuffer,
    HostBuffer, PinnedBuffer, SharedBuffer, UnifiedBuffer,
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

type Maker<'a, T> = Box<dyn Fn(usize) -> Result<Box<dyn Buffer<T>>, CudaError> + 'a>;

/// Each kind of each backend, mapped memory as requested, and an implementation from outside.
fn kinds<T: Element>(backends: &[CudaBackend]) -> Vec<(String, Maker<'_, T>)> {
    let mut kinds: Vec<(String, Maker<'_, T>)> = Vec::new();
    for (number, backend) in backends.iter().enumerate() {
        for kind in BufferKind::ALL {
            let make = move |len| backend.create(kind, len);
            kinds.push((format!("{kind} of {number}"), Box::new(make)));
        }
        let mapped = move |len| -> Result<Box<dyn Buffer<T>>, CudaError> {
            let options = UnifiedOptions::default().placement(Placement::Mapped);
            let buffer = UnifiedBuffer::zeroed_with(backend.device(), len, options)?;
            assert_eq!(buffer.placement().placement, Placement::Mapped);
            Ok(Box::new(buffer))
        };
        kinds.push((format!("mapped of {number}"), Box::new(mapped)));
    }
    kinds.push(("opaque".to_owned(), Box::new(opaque)));
    kinds
}

/// Each kind, erased, and as a part of a buffer and of shared storage.
fn of_erased<T: Element>(backend: &CudaBackend) -> Vec<(String, Maker<'_, T>)> {
    let mut makers: Vec<(String, Maker<'_, T>)> = Vec::new();
    for kind in BufferKind::ALL {
        let erased = move |len| backend.create_erased(kind, T::DTYPE, len);
        let part = move |len| {
            let mut parts = erased(len + 7)?.into_parts(&[0..3, 3..3, 3..len + 3])?;
            parts.remove(2).into_typed()
        };
        let shared = move |len| {
            let part = SharedBuffer::new(erased(len + 7)?).view(3..len + 3)?;
            part.write()?.into_erased().into_typed()
        };
        makers.push((
            format!("erased {kind}"),
            Box::new(move |len| erased(len)?.into_typed()),
        ));
        makers.push((format!("a part of {kind}"), Box::new(part)));
        makers.push((format!("shared {kind}"), Box::new(shared)));
    }
    let opaque = |len| {
        let bytes = Box::new(OpaqueBuffer::<u8>::new(len * size_of::<T>()));
        ErasedBuffer::from_bytes(bytes, T::DTYPE)?.into_typed()
    };
    makers.push(("erased opaque".to_owned(), Box::new(opaque)));
    makers
}

fn every_kind<T: Element>(machine: &Machine) {
    let (backend, pooled) = (machine.backend(), machine.pooled());
    let mut makers = kinds::<T>(std::slice::from_ref(&backend));
    makers.extend(of_erased(&backend));
    let from_pool = |len| pooled.create::<T>(BufferKind::Unified, len);
    makers.push(("pooled".to_owned(), Box::new(from_pool)));
    for (name, make) in &makers {
        check(&format!("{name}, {}", T::DTYPE), conformance::all(make));
    }
}

fn every_pair(backends: &[CudaBackend]) {
    let kinds = kinds::<f32>(backends);
    for (source_name, source) in &kinds {
        for (target_name, target) in &kinds {
            let what = format!("from {source_name} to {target_name}");
            check(&what, conformance::pair(target, source));
        }
    }
}

/// A block of quantised weights: an element that this crate does not know.
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Block {
    scale: u16,
    weights: [u8; 16],
}

impl Element for Block {
    const DTYPE: DType = DType::Opaque(18);
}

#[test]
fn every_kind_of_f32() {
    on_each(every_kind::<f32>);
}

#[test]
fn every_kind_of_u8_and_complex_numbers() {
    on_each(every_kind::<u8>);
    on_each(every_kind::<num_complex::Complex64>);
}

#[test]
fn every_kind_of_blocks() {
    on_each(every_kind::<Block>);
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
