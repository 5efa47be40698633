//! claims 1 and 2: guards and arguments on another thread.

use cuda_um::{HostMut, HostRef, Result, UnifiedBuffer, ViewMut, buffer::HostOwned, kernel::Arguments};
use std::sync::Arc;

fn send(_: impl Send) {}

/// A guard on another thread.
fn guard_sent(guard: HostRef<'static, u32>) {
    send(guard);
}

/// A mutable guard on another thread.
fn guard_mut_sent(guard: HostMut<'static, u32>) {
    send(guard);
}

/// One buffer as input and output of launches on two threads.
fn in_place_sent(mut buffer: UnifiedBuffer<u32>) {
    let both = ViewMut::in_place(buffer.as_view_mut());
    std::thread::scope(|scope| {
        scope.spawn(move || drop(both));
    });
}

/// A list of arguments, with one buffer as input and output, on another thread.
fn in_place_sent_in_a_list(mut buffer: UnifiedBuffer<u32>) {
    let mut arguments = Arguments::new();
    arguments.push(buffer.as_view_mut().in_place());
    std::thread::scope(|scope| {
        scope.spawn(move || drop(arguments));
    });
}

/// An owned host guard on another thread.
fn owned_guard_sent(buffer: Arc<UnifiedBuffer<u32>>) -> Result<()> {
    let guard = HostOwned::new(buffer, |buffer| buffer.host())?;
    std::thread::spawn(move || guard[0]);
    Ok(())
}

fn main() {}
