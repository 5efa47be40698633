//! claim 4: Bytes between fields are not initialised.

#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C)]
struct Padded {
    byte: u8,
    word: u32,
}

fn main() {}
