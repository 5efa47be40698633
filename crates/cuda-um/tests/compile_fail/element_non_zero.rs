//! A kernel could write zero.

fn main() {
    cuda_um::UnifiedBuffer::<std::num::NonZeroU32>::zeroed;
}
