//! Buffers on several threads.

use std::panic::resume_unwind;
use std::thread;

use super::Make;
use super::failure::{Rule, Verdict};
use super::sample::{made_with, sample};
use crate::buffer::Buffer;
use crate::dtype::Element;

const LEN: usize = 1000;

/// [`Rule::OtherThreads`]: one thread writes, another reads and writes, two read at a time, and another one drops the buffer.
pub fn other_threads<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::OtherThreads;
    let (buffer, elements) = made_with(rule, make, 1, LEN)?;
    let mut buffer = on_another(move || -> Verdict<Box<dyn Buffer<T>>> {
        let mut buffer = buffer;
        rule.has(&*buffer, &elements, "on another thread")?;
        rule.works("fill", buffer.fill(sample(40)))?;
        Ok(buffer)
    })?;
    rule.has(
        &*buffer,
        &[sample(40); LEN],
        "after the other thread wrote it",
    )?;

    rule.works("fill", buffer.fill(sample(41)))?;
    let shared = &*buffer;
    thread::scope(|scope| {
        let read = || rule.has(shared, &[sample(41); LEN], "on one of two threads");
        let both = [scope.spawn(read), scope.spawn(read)];
        both.into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;

    rule.works("fill", buffer.fill(sample(42)))?;
    on_another(move || drop(buffer));
    Ok(())
}

fn on_another<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    thread::spawn(body)
        .join()
        .unwrap_or_else(|panic| resume_unwind(panic))
}
