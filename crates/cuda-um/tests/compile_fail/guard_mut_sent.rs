//! claim 1: A mutable guard on another thread.

use cuda_um::HostMut;

fn send(_: impl Send) {}

fn misuse(guard: HostMut<'static, u32>) {
    send(guard);
}

fn main() {}
