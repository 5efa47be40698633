//! Allocations with invalid lengths and types, and registration of memory that CUDA already has.

use um_backend::{
    Buffer, BufferKind, CudaBuffer, DType, HostBuffer, PinnedBuffer, UnifiedBuffer,
    cuda_um::{AccessPattern, UnifiedOptions},
};

use crate::world::{cases, run};

const TOO_MANY: usize = isize::MAX as usize / 4 + 1;
/// More than the device has.
const BEYOND: usize = (65 << 20) / 4;

#[test]
#[allow(unsafe_code, reason = "calls a function that fails")]
fn more_than_can_be_addressed() {
    run(cases! {
        "CudaBackend::allocate_unified", "usize::MAX": |w| w.backend.allocate_unified::<f32>(usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 4 bytes", "9223372036854775807 bytes"];
        "CudaBackend::allocate_unified_for", "usize::MAX": |w| w.backend.allocate_unified_for::<f32>(usize::MAX, AccessPattern::ReadBack)
            => TooLarge, ["18446744073709551615 elements of 4 bytes"];
        "CudaBackend::create_buffer", "one too many": |w| w.backend.create_buffer::<f32>(TOO_MANY, DType::F32)
            => TooLarge, ["2305843009213693952 elements of 4 bytes"];
        "CudaBackend::create_pinned", "usize::MAX": |w| w.backend.create_pinned::<f64>(usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 8 bytes"];
        "CudaBackend::create_host", "one too many": |w| w.backend.create_host::<f32>(TOO_MANY)
            => TooLarge, ["2305843009213693952 elements of 4 bytes"];
        "CudaBackend::create_cuda", "usize::MAX": |w| w.backend.create_cuda::<f32>(usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 4 bytes"];
        "CudaBackend::create", "usize::MAX": |w| w.backend.create::<u8>(BufferKind::Cuda, usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 1 bytes"];
        // SAFETY: the call fails.
        "CudaBackend::create_uninit", "usize::MAX": |w| unsafe { w.backend.create_uninit::<u8>(BufferKind::Unified, usize::MAX) }
            => TooLarge, ["18446744073709551615 elements of 1 bytes"];
        "HostBuffer::zeroed", "usize::MAX": |_w| HostBuffer::<f32>::zeroed(usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 4 bytes"];
        "CudaBuffer::zeroed", "usize::MAX": |w| CudaBuffer::<f32>::zeroed(w.backend.device(), usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 4 bytes"];
        "PinnedBuffer::zeroed", "usize::MAX": |w| PinnedBuffer::<f64>::zeroed(w.backend.device(), usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 8 bytes"];
        "UnifiedBuffer::zeroed", "usize::MAX": |w| UnifiedBuffer::<f32>::zeroed(w.backend.device(), usize::MAX)
            => TooLarge, ["18446744073709551615 elements of 4 bytes"];
        "UnifiedBuffer::zeroed_with", "usize::MAX": |w| UnifiedBuffer::<f32>::zeroed_with(w.backend.device(), usize::MAX, UnifiedOptions::default())
            => TooLarge, ["18446744073709551615 elements of 4 bytes"];
    });
}

#[test]
fn more_than_there_is() {
    run(cases! {
        "CudaBackend::allocate_unified", "more than the device has": |w| w.backend.allocate_unified::<f32>(BEYOND)
            => OutOfMemory, ["oversubscribe", "bytes requested", "of 67108864"];
        "CudaBackend::allocate_unified_for", "more than the device has": |w| w.backend.allocate_unified_for::<f32>(BEYOND, AccessPattern::DeviceResident)
            => OutOfMemory, ["oversubscribe", "68157440 bytes requested", "of 67108864"];
        "CudaBackend::create_buffer", "more than the device has": |w| w.backend.create_buffer::<f32>(BEYOND, DType::F32)
            => OutOfMemory, ["cudaMalloc", "68157440 bytes requested", "of 67108864"];
        "CudaBackend::create_from", "more than the device has": |w| w.backend.create_from(BufferKind::Cuda, &vec![1.0f32; BEYOND])
            => OutOfMemory, ["cudaMalloc", "68157440 bytes requested", "of 67108864"];
        "CudaBackend::create_from_vec", "more than the device has": |w| w.backend.create_from_vec(BufferKind::Cuda, vec![1.0f32; BEYOND])
            => OutOfMemory, ["cudaMalloc", "68157440 bytes requested", "of 67108864"];
        "CudaBuffer::from_slice", "more than the device has": |w| CudaBuffer::from_slice(w.backend.device(), &vec![1.0f32; BEYOND])
            => OutOfMemory, ["cudaMalloc", "68157440 bytes requested", "of 67108864"];
        "UnifiedBuffer::from_slice", "more than the device has": |w| UnifiedBuffer::from_slice(w.backend.device(), &vec![1.0f32; BEYOND])
            => OutOfMemory, ["oversubscribe", "bytes requested", "of 67108864"];
        "HostBuffer::zeroed", "all that can be addressed": |_w| HostBuffer::<f32>::zeroed(TOO_MANY - 1).map(std::hint::black_box) // otherwise the allocation is optimized away
            => OutOfMemory, ["HostBuffer::zeroed: host memory for 2305843009213693951 elements", "9223372036854775804 bytes requested"];
    });
}

#[test]
fn types_that_do_not_match() {
    run(cases! {
        "CudaBackend::create_buffer", "f64 for f32": |w| w.backend.create_buffer::<f32>(4, DType::F64)
            => DTypeMismatch, ["dtype f64 was requested, but the element type is f32"];
        "UnifiedBuffer::new", "i8 for u8": |w| UnifiedBuffer::<u8>::new(w.backend.device(), 4, DType::I8)
            => DTypeMismatch, ["dtype i8", "u8"];
        "DType::check", "f32 for i32": |_w| DType::F32.check::<i32>()
            => DTypeMismatch, ["dtype f32", "i32"];
    });
}

#[test]
fn memory_that_cuda_has_already() {
    run(cases! {
        "CudaBackend::with_registered", "pinned memory": |w| {
            let mut guard = w.pinned.host_mut()?;
            w.backend.with_registered(&mut guard, |_| ())
        } => Call, ["cudaHostRegister", "4000 bytes"];
    });
}

#[test]
fn memory_that_kernels_do_not_reach() {
    run(cases! {
        "BufferMemory::device_view", "host memory": |_w| {
            let buffer = HostBuffer::<f32>::zeroed(4)?;
            buffer.memory().device_view().map(drop)
        } => NotSupported, ["a view for kernels", "device, managed or mapped pinned memory", "host memory"];
        "BufferMemoryMut::device_view_mut", "host memory": |_w| {
            let mut buffer = HostBuffer::<f32>::zeroed(4)?;
            buffer.memory_mut().device_view_mut().map(drop)
        } => NotSupported, ["a view for kernels", "host memory"];
    });
}
