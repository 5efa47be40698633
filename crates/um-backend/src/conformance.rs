//! A test suite for the contract of [`Buffer`], for any implementation.
//!
//! [`all`] checks one implementation, and [`pair`] the copies from one implementation to another. A [`Failure`] has the [`Rule`] and the values.
//!
//! # Examples
//! ```
//! use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaError, HostBuffer, conformance};
//!
//! fn host(len: usize) -> Result<Box<dyn Buffer<f32>>, CudaError> {
//!     Ok(Box::new(HostBuffer::zeroed(len)?))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
//! let cuda = |len| backend.create::<f32>(BufferKind::Cuda, len);
//!
//! conformance::all(&host)?;
//! conformance::downcasts_to::<HostBuffer<f32>, f32>(&host)?;
//! conformance::all(&cuda)?;
//! conformance::pair(&host, &cuda)?;
//! conformance::pair(&cuda, &host)?;
//! # Ok(())
//! # }
//! ```

mod failure;
mod operation;
mod refusals;
mod sample;

pub use failure::{Failure, Rule, Verdict};

use std::any::type_name;
use std::panic::resume_unwind;
use std::{ptr, thread};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::BufferMemory;
use operation::{Operation, Subject};
use sample::{made, made_with, sample, samples, zeros};

/// Allocates a buffer of the implementation under test with the given number of elements.
pub type Make<'a, T> = &'a dyn Fn(usize) -> Result<Box<dyn Buffer<T>>>;

const LENGTHS: [usize; 5] = [0, 1, 3, 1000, 4097];

/// Checks every rule for one implementation, and for copies between two of its buffers.
///
/// # Errors
/// The first rule that fails.
pub fn all<T: Element>(make: Make<'_, T>) -> Verdict {
    new_holds_zeros(make)?;
    properties(make)?;
    operations(Rule::Operations, &operation::all(), make, make)?;
    in_order(make)?;
    clones(make)?;
    refusals::of_one(make)?;
    threads(make)?;
    pair(make, make)
}

/// Checks every rule for copies from one implementation to another.
///
/// # Errors
/// The first rule that fails.
pub fn pair<T: Element>(target: Make<'_, T>, source: Make<'_, T>) -> Verdict {
    operations(Rule::Pairs, &operation::copies(), target, source)?;
    refusals::of_pair(target, source)
}

/// Checks that an implementation downcasts to a type: [`Rule::Properties`].
///
/// # Errors
/// The implementation does not keep the rule.
pub fn downcasts_to<B: Buffer<T> + 'static, T: Element>(make: Make<'_, T>) -> Verdict {
    let mut buffer = made(Rule::Properties, make, 3)?;
    let is_shared = buffer.as_any().is::<B>();
    Rule::Properties.holds(is_shared && buffer.as_any_mut().is::<B>(), || {
        format!("as_any() is not a {}", type_name::<B>())
    })
}

fn new_holds_zeros<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::NewHoldsZeros;
    for len in LENGTHS {
        // Twice, with samples in between: memory from a free list is not zero.
        for _ in 0..2 {
            let mut buffer = made(rule, make, len)?;
            rule.has(&*buffer, &zeros(len), "in a new buffer")?;
            rule.works("copy_from_host", buffer.copy_from_host(&samples(1, len)))?;
        }
    }
    Ok(())
}

fn properties<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Properties;
    for len in LENGTHS {
        let mut buffer = made(rule, make, len)?;
        let device = ordinal(&*buffer);
        for when in ["in a new buffer", "after copy_from_host"] {
            let capacity = buffer.capacity();
            rule.holds(capacity >= len, || format!("capacity() {when}: {capacity}"))?;
            let itself = ptr::from_ref(&*buffer);
            let is_any = ptr::addr_eq(buffer.as_any(), itself)
                && ptr::addr_eq(buffer.as_any_mut(), itself)
                && buffer.as_any().type_id() == buffer.as_any_mut().type_id()
                && !buffer.as_any().is::<Box<dyn Buffer<T>>>();
            rule.holds(is_any, || {
                "as_any() or as_any_mut() is not the buffer itself".to_owned()
            })?;
            let memory = of_memory(buffer.memory());
            let memory_mut = of_memory(buffer.memory_mut().as_shared());
            rule.same(&format!("memory() {when}"), &memory, &memory_mut)?;
            let found = (
                buffer.len(),
                buffer.is_empty(),
                buffer.dtype(),
                ordinal(&*buffer),
                memory.1.unwrap_or(len),
            );
            let expected = (len, len == 0, T::DTYPE, device, len);
            let what = "length, emptiness, dtype, device, elements of memory()";
            rule.same(&format!("{what} {when}"), found, expected)?;
            rule.works("copy_from_host", buffer.copy_from_host(&samples(1, len)))?;
        }
    }
    Ok(())
}

fn ordinal<T: Element>(buffer: &dyn Buffer<T>) -> Option<u32> {
    buffer.device().map(cuda_um::Device::ordinal)
}

fn of_memory<T: Element>(memory: BufferMemory<'_, T>) -> (String, Option<usize>) {
    (memory.in_words(), memory.len())
}

/// Each operation on each range, with a look at all elements after it.
fn operations<T: Element>(
    rule: Rule,
    operations: &[Operation<T>],
    make: Make<'_, T>,
    other: Make<'_, T>,
) -> Verdict {
    for len in LENGTHS {
        let mut subject = Subject::new(rule, make, other, len)?;
        // The start, the middle, the end, all elements, none.
        let ranges = [
            0..len / 2,
            len / 3..len - len / 3,
            len - len / 4..len,
            0..len,
            len..len,
        ];
        for (number, range) in ranges.into_iter().enumerate() {
            for operation in operations {
                subject.run(rule, *operation, range.clone(), 100 * number)?;
                subject.check(rule, &format!("after {}, {range:?}", operation.0))?;
            }
        }
    }
    Ok(())
}

/// Random operations, without a look in between.
fn in_order<T: Element>(make: Make<'_, T>) -> Verdict {
    const LEN: usize = 257;
    let rule = Rule::InOrder;
    let mut subject = Subject::new(rule, make, make, LEN)?;
    // A xorshift generator with a fixed seed, so that each run makes the same calls.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let all = operation::all();
    for step in 0..200 {
        let (one, other) = (below(LEN + 1), below(LEN + 1));
        let operation = all[below(all.len())];
        subject.run(rule, operation, one.min(other)..one.max(other), step)?;
    }
    subject.check(rule, "at the end")
}

fn clones<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Clones;
    for len in LENGTHS {
        let (original, elements) = made_with(rule, make, 1, len)?;
        for (call, len, expected) in [
            ("clone_empty", 3, zeros(3)),
            ("clone_empty", 1000, zeros(1000)),
            ("try_clone", len, elements.clone()),
        ] {
            let clone = match call {
                "try_clone" => original.try_clone(),
                _ => original.clone_empty(len),
            };
            let mut clone = rule.works(call, clone)?;
            rule.has(&*clone, &expected, &format!("in the clone of {call}"))?;
            let of = |buffer: &dyn Buffer<T>| (buffer.as_any().type_id(), ordinal(buffer));
            let (found, expected) = (of(&*clone), of(&*original));
            rule.same("type and device of the clone", found, expected)?;
            let others = samples(70, len);
            rule.works("copy_from_host", clone.copy_from_host(&others))?;
            rule.has(&*clone, &others, "in the clone, after it was written")?;
            rule.has(&*original, &elements, "after a clone was written")?;
        }
    }
    Ok(())
}

/// One thread writes, two read at a time, and another one drops the buffer.
fn threads<T: Element>(make: Make<'_, T>) -> Verdict {
    const LEN: usize = 1000;
    let rule = Rule::Threads;
    let (mut buffer, elements) = made_with(rule, make, 1, LEN)?;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            rule.has(&*buffer, &elements, "on another thread")?;
            rule.works("fill", buffer.fill(sample(40)))
        });
        joined(writer.join())
    })?;
    thread::scope(|scope| {
        let read = || rule.has(&*buffer, &[sample(40); LEN], "on one of two threads");
        let both = [scope.spawn(read), scope.spawn(read)];
        both.into_iter()
            .try_for_each(|thread| joined(thread.join()))
    })?;
    rule.works("fill", buffer.fill(sample(42)))?;
    joined(thread::spawn(move || drop(buffer)).join());
    Ok(())
}

fn joined<R>(outcome: thread::Result<R>) -> R {
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}
