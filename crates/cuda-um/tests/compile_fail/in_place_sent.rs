//! claim 2: One buffer as input and output of launches on two threads.

use cuda_um::{UnifiedBuffer, ViewMut};

fn misuse(mut buffer: UnifiedBuffer<u32>) {
    let both = ViewMut::in_place(buffer.as_view_mut());
    std::thread::scope(|scope| {
        scope.spawn(move || drop(both));
    });
}

fn main() {}
