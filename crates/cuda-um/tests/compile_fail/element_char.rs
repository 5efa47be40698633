//! A kernel could write a value that is not a character.

fn main() {
    cuda_um::UnifiedBuffer::<char>::zeroed;
}
