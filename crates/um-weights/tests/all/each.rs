//! Tensors as they arrive.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_um_testkit::watchdog::watch;
use um_backend::BufferKind;
use um_backend::sim::Gpu;
use um_weights::{Error, LoadOptions};

use crate::support::{Storage, byte, bytes_of, machine, safetensors};

const LARGE: usize = 1_500_000;

/// Ten tensors of 1.5 MB.
fn model() -> Vec<u8> {
    let names: Vec<String> = (0..10).map(|number| format!("t{number}")).collect();
    let tensors: Vec<(&str, &str, &[usize], usize)> = names
        .iter()
        .map(|name| (name.as_str(), "U8", &[LARGE][..], LARGE))
        .collect();
    safetensors(&tensors)
}

#[test]
fn they_come_in_the_order_of_the_file_and_wait_for_the_receiver() {
    let (storage, weights) = Storage::of(model()).open();
    let weights = weights.unwrap();
    let _watchdog = watch();
    for kind in [BufferKind::Cuda, BufferKind::Unified, BufferKind::Host] {
        let (_sim, backend) = machine(Gpu::H200);
        let options = LoadOptions::default().bytes_in_flight(3 * LARGE);
        let before = storage.read.load(Ordering::Relaxed);
        let each = weights.load_each(&backend, kind, &options).unwrap();
        for (number, tensor) in each.enumerate() {
            let tensor = tensor.unwrap();
            assert_eq!(tensor.info().name(), format!("t{number}"));
            let ahead = storage.read.load(Ordering::Relaxed) - before;
            assert!(
                ahead <= ((number + 1 + 3) * LARGE) as u64,
                "{ahead} at {number}"
            );
            let right: Vec<u8> = (0..LARGE).map(|at| byte(number, at)).collect();
            assert!(bytes_of(&tensor) == right);
        }
        assert_eq!(
            storage.read.load(Ordering::Relaxed) - before,
            10 * LARGE as u64
        );
    }
}

#[test]
fn a_drop_stops_the_load_and_gives_everything_back() {
    let (storage, weights) = Storage::of(model()).open();
    let weights = weights.unwrap();
    let _watchdog = watch();
    for taken in [0, 1, 3] {
        let (_sim, backend) = machine(Gpu::H200);
        let options = LoadOptions::default().bytes_in_flight(2 * LARGE);
        let before = storage.read.load(Ordering::Relaxed);
        let mut each = weights
            .load_each(&backend, BufferKind::Cuda, &options)
            .unwrap();
        for _ in 0..taken {
            each.next().unwrap().unwrap();
        }
        drop(each);
        let read = storage.read.load(Ordering::Relaxed) - before;
        assert!(read <= ((taken + 2) * LARGE) as u64, "{read}");
    }
}

#[test]
fn an_error_ends_it_and_the_tensors_before_stay() {
    let mut storage = Storage::of(model());
    let data = storage.bytes.len() - 10 * LARGE;
    let at = (data + 6 * LARGE + 1000) as u64;
    storage.fails_at = Some((at, std::io::ErrorKind::Other));
    let (_storage, weights) = storage.open();
    let (_sim, backend) = machine(Gpu::H200);
    let options = LoadOptions::default().bytes_in_flight(2 * LARGE);
    let each = weights
        .unwrap()
        .load_each(&backend, BufferKind::Unified, &options)
        .unwrap();
    let mut outcomes: Vec<_> = each.collect();
    let error = outcomes.pop().unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::Read { tensor, at: found, .. } if tensor == "t6" && *found == at),
        "{error}"
    );
    assert_eq!(outcomes.len(), 6);
    let last = outcomes.pop().unwrap().unwrap();
    assert!(bytes_of(&last) == (0..LARGE).map(|at| byte(5, at)).collect::<Vec<u8>>());
}

#[test]
fn a_panic_of_the_callback_comes_out_of_the_iterator() {
    let (_storage, weights) = Storage::of(model()).open();
    let (_sim, backend) = machine(Gpu::H200);
    let calls = Arc::new(AtomicUsize::new(0));
    let options = LoadOptions::default().progress(move |_, _| {
        assert!(calls.fetch_add(1, Ordering::Relaxed) < 3, "on purpose");
        ControlFlow::Continue(())
    });
    let each = weights
        .unwrap()
        .load_each(&backend, BufferKind::Cuda, &options)
        .unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| each.count()));
    assert!(outcome.is_err());
}
