//! Compares each kernel with its CPU reference, for lengths around the sizes of blocks and grids.

use cuda_um::{DeviceBuffer, RegisteredBuffer, UnifiedBuffer};
use cuda_um_testkit::device;
use um_kernels::{CopyKernels, Fill, Reduce, Saxpy, Scale, reduce_sum_cpu, saxpy_cpu, scale_cpu};

const LENGTHS: [usize; 9] = [0, 1, 31, 255, 256, 257, 1025, 100_003, 1 << 21];

/// Numbers from -1 to 1, the same in every run (xorshift64*).
pub fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn scale_gives_the_bits_of_its_reference() {
    let (_sim, device, stream) = device();
    let scale = Scale::load(&device).unwrap();
    for count in LENGTHS {
        let input = noise(1, count);
        let mut expected = vec![0.0; count];
        scale_cpu(&input, &mut expected, 1.7);
        let source = UnifiedBuffer::from_slice(&device, &input).unwrap();
        let mut output = UnifiedBuffer::zeroed(&device, count).unwrap();
        scale.launch(&stream, &source, &mut output, 1.7).unwrap();
        assert_eq!(*output.host().unwrap(), *expected, "{count} elements");
    }
}

#[test]
fn saxpy_gives_the_bits_of_its_reference() {
    let (_sim, device, stream) = device();
    let saxpy = Saxpy::load(&device).unwrap();
    for count in LENGTHS {
        let (x, mut y) = (noise(2, count), noise(3, count));
        let source = DeviceBuffer::from_slice(&device, &x).unwrap();
        let mut target = DeviceBuffer::from_slice(&device, &y).unwrap();
        saxpy.launch(&stream, -0.3, &source, &mut target).unwrap();
        saxpy_cpu(-0.3, &x, &mut y);
        let mut out = vec![0.0; count];
        target.copy_to_host(&mut out).unwrap();
        assert_eq!(out, y, "{count} elements");
    }
}

#[test]
fn both_copies_copy_everything() {
    let (_sim, device, stream) = device();
    let copy = CopyKernels::load(&device).unwrap();
    for (count, stride) in [
        (0, 1),
        (1, 1),
        (32 * 32, 32),
        (257 * 3, 257),
        (1 << 20, 1024),
        (1000, 1000),
    ] {
        let input = noise(4, count);
        let source = UnifiedBuffer::from_slice(&device, &input).unwrap();
        let mut output = UnifiedBuffer::zeroed(&device, count).unwrap();
        copy.strided(&stream, &source, &mut output, stride).unwrap();
        assert_eq!(
            *output.host().unwrap(),
            *input,
            "{count} elements, stride {stride}"
        );
        output.host_mut().unwrap().fill(f32::NAN);
        copy.coalesced(&stream, &source, &mut output).unwrap();
        assert_eq!(*output.host().unwrap(), *input, "{count} elements");
    }
}

/// Fills registered memory that begins at every offset, in full and in part, and compares it byte by byte.
fn fill_at_every_offset<T: bytemuck::Pod + Send + Sync>(value: T) {
    let (sim, device, stream) = device();
    let fill = Fill::load(&device).unwrap();
    let (size, count) = (size_of::<T>(), 300);
    // At least one page, because CUDA registers pages; its start is aligned for every element.
    let mut memory = vec![0u64; 1024];
    for offset in (0..16).step_by(align_of::<T>()) {
        memory.fill(0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
        let elements: &mut [T] = bytemuck::cast_slice_mut(&mut bytes[offset..][..size * count]);
        RegisteredBuffer::scope(&device, elements, |registered| {
            let part = registered.view_mut(1..count - 2).unwrap();
            fill.launch(&stream, part, value).unwrap();
            stream.synchronize().unwrap();
            let elements = registered.to_vec().unwrap();
            let elements: &[u8] = bytemuck::cast_slice(&elements);
            for (index, found) in elements.chunks(size).enumerate() {
                let is_filled = (1..count - 2).contains(&index);
                let expected = if is_filled { value } else { T::zeroed() };
                let expected = bytemuck::bytes_of(&expected);
                assert_eq!(found, expected, "offset {offset}, element {index}");
            }
            fill.launch(&stream, &mut *registered, value).unwrap();
        })
        .unwrap();
        let bytes: &[u8] = bytemuck::cast_slice(&memory);
        let (before, rest) = bytes.split_at(offset);
        let (filled, after) = rest.split_at(size * count);
        let value = bytemuck::bytes_of(&value);
        assert!(filled.chunks(size).all(|element| element == value));
        assert!(
            before.iter().chain(after).all(|byte| *byte == 0),
            "what is beside"
        );
    }
    assert!(sim.as_ref().is_none_or(|sim| sim.poison().is_none()));
}

#[test]
fn fill_of_elements_that_are_aligned_to_less_than_their_size() {
    fill_at_every_offset([1u8, 2]);
    fill_at_every_offset([1u8, 2, 3, 4]);
    fill_at_every_offset([0x0102u16, 0x0304]);
    fill_at_every_offset([1u8, 2, 3, 4, 5, 6, 7, 8]);
    fill_at_every_offset([0x0102u16, 0x0304, 0x0506, 0x0708]);
    fill_at_every_offset([0x0102_0304u32, 0x0506_0708]);
    fill_at_every_offset(0x0102_0304_0506_0708u64);
}

#[test]
fn fill_of_every_element_size() {
    let (_sim, device, stream) = device();
    let fill = Fill::load(&device).unwrap();
    for count in LENGTHS {
        let mut bytes = UnifiedBuffer::<u8>::zeroed(&device, count).unwrap();
        fill.launch(&stream, &mut bytes, 0xA7).unwrap();
        assert!(
            bytes.host().unwrap().iter().all(|value| *value == 0xA7),
            "{count} u8"
        );
        let mut shorts = UnifiedBuffer::<i16>::zeroed(&device, count).unwrap();
        fill.launch(&stream, &mut shorts, -3).unwrap();
        assert!(
            shorts.host().unwrap().iter().all(|value| *value == -3),
            "{count} i16"
        );
        let mut floats = UnifiedBuffer::<f32>::zeroed(&device, count).unwrap();
        fill.launch(&stream, &mut floats, 1.5).unwrap();
        assert!(
            floats.host().unwrap().iter().all(|value| *value == 1.5),
            "{count} f32"
        );
        let mut doubles = UnifiedBuffer::<f64>::zeroed(&device, count).unwrap();
        fill.launch(&stream, &mut doubles, -1e300).unwrap();
        assert!(
            doubles.host().unwrap().iter().all(|value| *value == -1e300),
            "{count} f64"
        );
    }
}

#[test]
fn the_sum_in_shared_memory_has_the_bits_of_its_reference() {
    let (_sim, device, stream) = device();
    let reduce = Reduce::load(&device).unwrap();
    for count in LENGTHS {
        let input = noise(5, count);
        let source = UnifiedBuffer::from_slice(&device, &input).unwrap();
        let mut output = UnifiedBuffer::zeroed(&device, 1).unwrap();
        reduce.sum(&stream, &source, &mut output).unwrap();
        assert_eq!(
            output.host().unwrap()[0].to_bits(),
            reduce_sum_cpu(&input).to_bits(),
            "{count} elements"
        );
    }
}

/// Each of n - 1 additions rounds by at most half an epsilon of a partial sum, which is at most Σ|x|: in total less than n · ε
/// · Σ|x|.
#[test]
fn sums_are_within_the_rounding_of_their_additions() {
    let (_sim, device, stream) = device();
    let reduce = Reduce::load(&device).unwrap();
    for count in [1, 257, 100_003] {
        let input = noise(6, count);
        let exact: f64 = input.iter().map(|value| f64::from(*value)).sum();
        let bound = count as f64
            * f64::from(f32::EPSILON)
            * input
                .iter()
                .map(|value| f64::from(value.abs()))
                .sum::<f64>();
        let source = UnifiedBuffer::from_slice(&device, &input).unwrap();
        let mut output = UnifiedBuffer::zeroed(&device, 1).unwrap();
        reduce.sum_naive(&stream, &source, &mut output).unwrap();
        let naive = f64::from(output.host().unwrap()[0]);
        assert!(
            (naive - exact).abs() <= bound,
            "naive sum of {count}: {naive} against {exact}, bound {bound}"
        );
        let reference = f64::from(reduce_sum_cpu(&input));
        assert!(
            (reference - exact).abs() <= bound,
            "sum of {count}: {reference} against {exact}, bound {bound}"
        );
    }
}

#[test]
fn wrong_lengths_are_named_and_nothing_is_written() {
    let (_sim, device, stream) = device();
    let scale = Scale::load(&device).unwrap();
    let input = UnifiedBuffer::from_slice(&device, &[1.0f32; 8]).unwrap();
    let mut output = UnifiedBuffer::<f32>::zeroed(&device, 7).unwrap();
    let error = scale.launch(&stream, &input, &mut output, 2.0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "scale_f32 cannot be launched with 7 elements of `output`: 8 are needed"
    );
    assert_eq!(*output.host().unwrap(), [0.0; 7]);

    let copy = CopyKernels::load(&device).unwrap();
    let mut output = UnifiedBuffer::<f32>::zeroed(&device, 8).unwrap();
    for stride in [0, 3, 16] {
        let error = copy
            .strided(&stream, &input, &mut output, stride)
            .unwrap_err();
        let text = format!("copy cannot be launched with stride = {stride}: allowed is a divisor");
        assert!(error.to_string().starts_with(&text), "{error}");
    }
}
