//! CPU references of the small kernels.

/// Threads of a block; cuda/reduce.cu uses the same number.
pub(crate) const THREADS: usize = 256;
/// Limit on the blocks of the first stage: one block of the second stage adds their sums.
const BLOCKS: usize = 1024;

/// The CPU reference of [`Reduce::sum`](crate::Reduce::sum) for `input [n]`, bit-identical to the kernel.
pub fn reduce_sum_cpu(input: &[f32]) -> f32 {
    let blocks = blocks(input.len());
    let sums: Vec<f32> = (0..blocks)
        .map(|block| block_sum(input, block, blocks))
        .collect();
    block_sum(&sums, 0, 1)
}

/// The result of one block of `blocks`: the sums of its threads, then halves added to halves.
fn block_sum(input: &[f32], block: usize, blocks: usize) -> f32 {
    let mut sums = [0.0f32; THREADS];
    for (thread, sum) in sums.iter_mut().enumerate() {
        let first = block * THREADS + thread;
        *sum = input
            .iter()
            .skip(first)
            .step_by(blocks * THREADS)
            .fold(0.0, |sum, value| sum + value);
    }
    let mut half = THREADS / 2;
    while half > 0 {
        for thread in 0..half {
            sums[thread] += sums[thread + half];
        }
        half /= 2;
    }
    sums[0]
}

/// Blocks of the first stage: 4 elements for each thread.
pub(crate) fn blocks(count: usize) -> usize {
    count.div_ceil(THREADS * 4).clamp(1, BLOCKS)
}

/// The CPU reference of [`Saxpy`](crate::Saxpy) for `x [n]` and `y [n]`, bit-identical to the kernel.
///
/// # Panics
/// If the slices differ in length.
pub fn saxpy_cpu(a: f32, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len());
    for (y, x) in y.iter_mut().zip(x) {
        *y = a.mul_add(*x, *y);
    }
}

/// The CPU reference of [`Scale`](crate::Scale) for `input [n]` and `output [n]`, bit-identical to the kernel.
///
/// # Panics
/// If the slices differ in length.
pub fn scale_cpu(input: &[f32], output: &mut [f32], factor: f32) {
    assert_eq!(input.len(), output.len());
    for (output, input) in output.iter_mut().zip(input) {
        *output = input * factor;
    }
}
