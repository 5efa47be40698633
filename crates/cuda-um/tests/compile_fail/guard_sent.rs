//! claim 1: A guard on another thread.

use cuda_um::HostRef;

fn send(_: impl Send) {}

fn misuse(guard: HostRef<'static, u32>) {
    send(guard);
}

fn main() {}
