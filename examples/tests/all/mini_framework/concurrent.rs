//! Streams, threads, executors and devices.

use crate::mini_framework::{everywhere, is_on_gpu, on_each, simulated};
use rayon::prelude::*;
use std::thread;
use um_backend::sim::Gpu;
use um_backend::{BufferKind, DType};
use um_examples::mini_framework::{Place, Tensor};

#[test]
fn a_loader_overlaps_with_kernels() {
    everywhere(|place| {
        let loader = place.with_own_stream().unwrap();
        let mut weights = Tensor::from_slice(place, &[1.0f32; 1000], &[1000]).unwrap();
        let mut batches = [0, 1].map(|_| Tensor::zeros(place, DType::F32, &[1000]).unwrap());
        for step in 0..6 {
            let [next, current] = &mut batches;
            next.load_on(&[step as f32; 1000], loader.stream()).unwrap();
            weights.add_assign(current).unwrap(); // of the last step
            batches.swap(0, 1);
        }
        weights.add_assign(&batches[1]).unwrap();
        assert_eq!(*weights.data::<f32>().unwrap(), [16.0; 1000]);
    });
}

/// Neither the launch nor the copy waits: both are enqueued while the device does nothing.
#[test]
fn a_guard_lives_only_until_the_work_is_enqueued() {
    if is_on_gpu() {
        return eprintln!("NOT RUN: needs the simulator, which stops the device");
    }
    let (sim, backend) = simulated(Gpu::H200, |builder| builder);
    let place = Place::new(&backend, BufferKind::Cuda).unwrap();
    let loader = place.with_own_stream().unwrap();
    let mut x = Tensor::from_slice(&place, &[1.0f32; 64], &[64]).unwrap();
    let mut batch = Tensor::zeros(&place, DType::F32, &[64]).unwrap();
    let warm = x.add(&batch).unwrap();
    batch.load_on(&[1.0f32; 64], loader.stream()).unwrap();
    backend.synchronize().unwrap();
    drop(warm);
    let paused = sim.pause();
    x.scale(2.0).unwrap();
    batch.load_on(&[5.0f32; 64], loader.stream()).unwrap();
    let sum = x.add(&batch).unwrap();
    assert!(sum.storage().try_write().is_ok(), "no guard is left");
    assert!(
        !place.stream().is_idle().unwrap(),
        "the work is still there"
    );
    drop(paused);
    assert_eq!(*sum.data::<f32>().unwrap(), [7.0; 64]);
}

#[test]
fn rayon_tasks_share_a_tensor() {
    everywhere(|place| {
        let shared = Tensor::from_slice(place, &[2.0f32; 256], &[16, 16]).unwrap();
        let task = |i: usize| {
            let mut own = shared.on(&place.with_own_stream().unwrap());
            own.scale(i as f64).unwrap();
            own.add(&shared.on(own.place())).unwrap().sum().unwrap()
        };
        let sums: Vec<Tensor> = (0..16).into_par_iter().map(task).collect();
        for (i, sum) in sums.iter().enumerate() {
            assert_eq!(sum.data::<f32>().unwrap()[0], 512.0 * (i + 1) as f32);
        }
        let data = shared.data::<f32>().unwrap();
        assert_eq!(data.par_iter().sum::<f32>(), 512.0);
    });
}

#[test]
fn futures_run_on_any_executor() {
    everywhere(|place| {
        let x = Tensor::from_slice(place, &[3.0f32; 40], &[40]).unwrap();
        let elements = pollster::block_on(x.to_vec_async::<f32>()).unwrap();
        assert_eq!(elements, [3.0; 40]);
        let again = x.clone();
        let task = async move { again.add(&again)?.to_vec_async::<f32>().await };
        let task = thread::spawn(|| pollster::block_on(task));
        assert_eq!(task.join().unwrap().unwrap(), [6.0; 40]);
    });
}

#[test]
fn two_devices() {
    on_each(|backend| {
        if backend.device().runtime().device_count().unwrap() < 2 {
            return eprintln!("NOT RUN: there is one device");
        }
        for kind in BufferKind::ALL {
            let first = Place::new(backend, kind).unwrap();
            let second = first.sibling(1).unwrap();
            let x = Tensor::from_slice(&first, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
            let mut y = x.transpose(0, 1).to(&second).unwrap();
            y.scale(10.0).unwrap();
            let sum = x.add(&y.to(&first).unwrap()).unwrap();
            assert_eq!(
                *sum.data::<f32>().unwrap(),
                [11.0, 32.0, 23.0, 44.0],
                "{kind}"
            );
            let device = y.storage().device().map(um_backend::Device::ordinal);
            // Memory of the host belongs to the device that uses it in place.
            let in_place = backend.device().capabilities().pageable_memory_access;
            let has_device = kind != BufferKind::Host || in_place;
            assert_eq!(device, has_device.then_some(1), "{kind}");
        }
    });
}

/// Between two devices, a copy is one call of CUDA.
#[test]
fn a_copy_between_devices_is_one_call() {
    if is_on_gpu() {
        return eprintln!("NOT RUN: needs the calls of the simulator");
    }
    let (sim, backend) = simulated(Gpu::H200, |builder| builder);
    let first = Place::new(&backend, BufferKind::Cuda).unwrap();
    let second = first.sibling(1).unwrap();
    let x = Tensor::from_slice(&first, &[1.0f32; 1 << 20], &[1 << 20]).unwrap();
    backend.synchronize().unwrap();
    sim.clear_trace();
    let y = x.to(&second).unwrap();
    let copies = sim
        .trace()
        .iter()
        .filter(|call| call.name.contains("Memcpy"))
        .count();
    assert_eq!(copies, 1);
    assert_eq!(y.data::<f32>().unwrap()[7], 1.0);
}
