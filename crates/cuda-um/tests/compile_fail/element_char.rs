//! A kernel could write what is no character.

fn main() {
    cuda_um::UnifiedBuffer::<char>::zeroed;
}
