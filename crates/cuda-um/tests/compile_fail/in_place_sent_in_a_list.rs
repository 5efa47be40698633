//! claim 2: A list of arguments, with one buffer as input and output, on another thread.

use cuda_um::{UnifiedBuffer, kernel::Arguments};

fn misuse(mut buffer: UnifiedBuffer<u32>) {
    let mut arguments = Arguments::new();
    arguments.push(buffer.as_view_mut().in_place());
    std::thread::scope(|scope| {
        scope.spawn(move || drop(arguments));
    });
}

fn main() {}
