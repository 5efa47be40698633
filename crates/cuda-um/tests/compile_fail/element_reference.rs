//! claim 4: A kernel could write any address.

fn main() {
    cuda_um::UnifiedBuffer::<&'static u32>::zeroed;
}
