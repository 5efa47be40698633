//! Impossible lengths, and lengths that no device has.

use crate::bad_input::world::{LEN, cases, run};
use cuda_um::{DeviceBuffer, PinnedBuffer, RegisteredBuffer, UnifiedBuffer};

/// One element of 4 bytes more than the limit of a slice.
const TOO_MANY: usize = isize::MAX as usize / 4 + 1;
/// The limit of a slice.
const MOST: usize = isize::MAX as usize / 4;
/// More than the memory of the device.
const BEYOND: usize = (65 << 20) / 4;

/// claims 5 and 30: The registration of before stays.
#[test]
fn memory_that_cannot_be() {
    run(cases! {
        "UnifiedBuffer::zeroed", "one too many": |w| UnifiedBuffer::<u32>::zeroed(&w.device, TOO_MANY)
            => InvalidArgument, ["2305843009213693952 elements of 4 bytes"];
        "DeviceBuffer::zeroed", "usize::MAX": |w| DeviceBuffer::<u64>::zeroed(&w.device, usize::MAX)
            => InvalidArgument, ["18446744073709551615 elements of 8 bytes"];
        "PinnedBuffer::zeroed", "usize::MAX": |w| PinnedBuffer::<u32>::zeroed(&w.device, usize::MAX)
            => InvalidArgument, ["18446744073709551615 elements of 4 bytes"];
        "UnifiedBuffer::zeroed_in", "usize::MAX": |w| UnifiedBuffer::<u32>::zeroed_in(&w.unified_pool, usize::MAX)
            => InvalidArgument, ["18446744073709551615 elements of 4 bytes"];
        "UnifiedBuffer::zeroed", "all that can be addressed": |w| UnifiedBuffer::<u32>::zeroed(&w.device, MOST)
            => OutOfMemory, ["oversubscribe", "9223372036854775804 bytes requested", "67108864"];
        "UnifiedBuffer::zeroed", "more than the device has": |w| UnifiedBuffer::<u32>::zeroed(&w.device, BEYOND)
            => OutOfMemory, ["oversubscribe", "68157440 bytes requested", "67108864"];
        "DeviceBuffer::zeroed", "all that can be addressed": |w| DeviceBuffer::<u32>::zeroed(&w.device, MOST)
            => OutOfMemory, ["cudaMalloc", "9223372036854775804 bytes requested", "67108864"];
        "PinnedBuffer::zeroed", "all that can be addressed": |w| PinnedBuffer::<u32>::zeroed(&w.device, MOST)
            => OutOfMemory, ["cudaHostAlloc", "9223372036854775804 bytes requested"];
        "RegisteredBuffer::scope", "pinned memory": |w| {
            let mut guard = w.pinned.host_mut()?;
            RegisteredBuffer::scope(&w.device, &mut guard, |_| ())
        } => Call, ["cudaHostRegister", "4000 bytes", "cudaErrorInvalidValue"];
        "RegisteredBuffer::scope", "registered memory": |w| {
            let mut guard = w.registered.host_mut()?;
            RegisteredBuffer::scope(&w.device, &mut guard, |_| ())
        } => Call, ["cudaHostRegister", "4000 bytes", "cudaErrorHostMemoryAlreadyRegistered"];
        "RegisteredBuffer::scope", "a part of registered memory": |w| {
            let mut guard = w.registered.host_mut()?;
            RegisteredBuffer::scope(&w.device, &mut guard[LEN / 2..], |_| ())
        } => Call, ["cudaHostRegister", "2000 bytes", "cudaErrorHostMemoryAlreadyRegistered"];
    });
}
