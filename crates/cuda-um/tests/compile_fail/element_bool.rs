//! claim 4: A kernel could write 2.

fn main() {
    cuda_um::UnifiedBuffer::<bool>::zeroed;
}
