//! Tensors that own unified memory.

use crate::support::{numbers, simulated, world};
use candle_core::{DType, Device, Tensor};

#[test]
fn the_host_writes_and_reads_in_place() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let a = unified.zeros::<f32>((8, 8)).unwrap();
    assert_eq!((a.dims(), a.dtype()), (&[8, 8][..], DType::F32));
    let sum = unified.host_mut(&a, |elements: &mut [f32]| {
        elements.copy_from_slice(&numbers(64));
        elements.len()
    });
    assert_eq!(sum.unwrap(), 64);
    let read = unified
        .host(&a, |elements: &[f32]| elements.to_vec())
        .unwrap();
    assert_eq!(read, numbers(64));
    assert_eq!(a.flatten_all().unwrap().to_vec1::<f32>().unwrap(), read);
}

#[test]
fn products_are_those_of_ordinary_tensors() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let (left, right) = (numbers(12 * 20), numbers(20 * 7));
    let ordinary = (
        world.ordinary(&left, (12, 20)),
        world.ordinary(&right, (20, 7)),
    );
    let expected = ordinary
        .0
        .matmul(&ordinary.1)
        .unwrap()
        .to_vec2::<f32>()
        .unwrap();
    let a = unified.from_slice(&left, (12, 20)).unwrap();
    let b = unified.copy(&ordinary.1).unwrap();
    for (a, b) in [(&a, &b), (&a, &ordinary.1), (&ordinary.0, &b)] {
        world.delay();
        let product = unified.copy(&a.matmul(b).unwrap()).unwrap();
        assert_eq!(product.to_vec2::<f32>().unwrap(), expected);
        let in_place = unified.host(&product, |elements: &[f32]| elements.to_vec());
        assert_eq!(in_place.unwrap(), expected.concat());
    }
    if simulated() {
        let cpu = Tensor::from_slice(&left, (12, 20), &Device::Cpu).unwrap();
        let product = cpu.matmul(&Tensor::from_slice(&right, (20, 7), &Device::Cpu).unwrap());
        assert_eq!(product.unwrap().to_vec2::<f32>().unwrap(), expected);
    }
}

#[test]
fn operations_with_candles_kernels_are_those_of_ordinary_tensors() {
    use candle_nn::ops::{layer_norm, softmax_last_dim};
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let (major, minor) = unified.ours().capabilities().compute_capability;
    let compiled_for = option_env!("CUDA_COMPUTE_CAP").and_then(|text| text.parse().ok());
    if compiled_for.is_some_and(|compiled_for| major * 10 + minor < compiled_for) {
        eprintln!("skipped: candle's kernels are compiled for a newer GPU");
        return;
    }
    let (input, row) = (
        world.ordinary(&numbers(12 * 20), (12, 20)),
        world.ordinary(&numbers(20), (1, 20)),
    );
    let row = row.flatten_all().unwrap();
    let (ours, our_row) = (unified.copy(&input).unwrap(), unified.copy(&row).unwrap());
    let pairs = [
        (softmax_last_dim(&input), softmax_last_dim(&ours)),
        (
            layer_norm(&input, &row, &row, 1e-5),
            layer_norm(&ours, &our_row, &our_row, 1e-5),
        ),
        (input.gelu(), ours.gelu()),
        (
            input.t().unwrap().contiguous(),
            ours.t().unwrap().contiguous(),
        ),
        (&input + &ours, &ours + &input),
    ];
    for (expected, found) in pairs {
        let [expected, found] =
            [expected, found].map(|tensor| tensor.unwrap().to_vec2::<f32>().unwrap());
        assert_eq!(expected, found);
        assert_ne!(expected, numbers(12 * 20).chunks(20).collect::<Vec<_>>());
    }
}

#[test]
fn clones_and_views_share_the_memory() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let a = unified.from_slice(&numbers(30), (5, 6)).unwrap();
    let (clone, rows) = (a.clone(), a.narrow(0, 1, 2).unwrap());
    drop(a);
    unified
        .host_mut(&rows, |elements: &mut [f32]| elements.fill(9.0))
        .unwrap();
    let mut expected = numbers(30);
    expected[6..18].fill(9.0);
    assert_eq!(clone.to_vec2::<f32>().unwrap().concat(), expected);
    assert_eq!(
        unified
            .host(&rows, |elements: &[f32]| elements.to_vec())
            .unwrap(),
        [9.0; 12]
    );
    let copied = unified.copy(&rows).unwrap();
    assert_eq!(copied.to_vec2::<f32>().unwrap(), [[9.0; 6]; 2]);
}

#[test]
fn all_types_of_the_cpu_and_the_device_are_copied() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let types = [
        DType::U8,
        DType::U32,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];
    for dtype in types {
        let cpu = Tensor::new(&[1_u32, 2, 3, 100], &Device::Cpu)
            .unwrap()
            .to_dtype(dtype)
            .unwrap();
        let unified_of_cpu = unified.copy(&cpu).unwrap();
        let device = cpu.to_device(world.candle()).unwrap();
        for copied in [unified_of_cpu, unified.copy(&device).unwrap()] {
            assert_eq!(copied.dtype(), dtype);
            let back = copied
                .to_device(&Device::Cpu)
                .unwrap()
                .to_dtype(DType::U32)
                .unwrap();
            assert_eq!(back.to_vec1::<u32>().unwrap(), [1, 2, 3, 100], "{dtype:?}");
        }
    }
}

#[test]
fn dropped_tensors_leave_nothing_in_the_pool() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let rounds = if simulated() { 2000 } else { 100_000 };
    let ordinary = world.ordinary(&[1.0; 4096], (64, 64));
    for round in 0..rounds {
        let tensor = unified.zeros::<f32>((64, 64)).unwrap();
        if round % 100 == 0 {
            let product = tensor.matmul(&ordinary).unwrap();
            drop(tensor);
            assert_eq!(product.to_vec2::<f32>().unwrap()[63], [0.0; 64]);
        }
    }
    world.candle().synchronize().unwrap();
    let pool = unified.pool().unwrap();
    pool.trim();
    // Memory in use cannot be trimmed.
    assert_eq!(pool.stats().reserved_bytes, 0);
}
