//! Operations on a stream of the caller's choice.

use um_backend::BufferKind;
use um_backend::cuda_um::Error;

use crate::support::{on_each, on_each_preset};

/// A copy and a fill on two other streams: the work on one buffer is ordered, and unrelated work does not wait.
#[test]
fn a_copy_on_one_stream_does_not_wait_for_another_stream() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let (backend, sim) = (machine.backend(), machine.sim.as_ref().unwrap());
            let (loader, own) = (
                backend.device().create_stream().unwrap(),
                backend.device().stream(),
            );
            let mut batch = backend.create::<f32>(BufferKind::Cuda, 1000).unwrap();
            let mut other = backend.create::<f32>(BufferKind::Cuda, 1000).unwrap();
            backend.synchronize().unwrap();
            let paused = sim.pause();
            // Enqueued on the backend's stream, which does not advance; then on the loader's.
            other.fill(2.0).unwrap();
            batch.copy_from_host_on(&[3.0; 1000], &loader).unwrap();
            drop(paused);
            let mut back = [0.0; 1000];
            batch.copy_to_host_on(&mut back, &loader).unwrap();
            assert_eq!(back, [3.0; 1000]);
            let streams: Vec<_> = sim
                .trace()
                .iter()
                .filter(|call| call.name == "cudaMemcpyAsync")
                .map(|call| format!("{call:?}"))
                .collect();
            assert!(streams.len() >= 2, "{streams:?}");
            assert_ne!(loader.as_raw(), own.as_raw());
            assert_eq!(other.to_vec().unwrap(), [2.0; 1000]);
        },
    );
}

#[test]
fn every_pair_of_kinds_copies_on_a_stream() {
    on_each(|machine| {
        let backend = machine.backend();
        let stream = backend.device().create_stream().unwrap();
        // More than one piece of a staged copy.
        let elements: Vec<u32> = (0..(5 << 20) / 4).collect();
        for from in BufferKind::ALL {
            let mut source = backend.create::<u32>(from, elements.len()).unwrap();
            source.copy_from_host_on(&elements, &stream).unwrap();
            for to in BufferKind::ALL {
                let mut target = backend.create::<u32>(to, elements.len()).unwrap();
                target.copy_from_buffer_on(&*source, &stream).unwrap();
                let mut back = vec![0; elements.len()];
                target.copy_to_host_on(&mut back, &stream).unwrap();
                assert!(back == elements, "from {from} to {to}");
                target.fill_on(7, &stream).unwrap();
                assert_eq!(target.read_one(elements.len() - 1).unwrap(), 7, "{to}");
            }
        }
    });
}

#[test]
fn wrong_streams_and_lengths_are_refused() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let (backend, other) = (machine.backend(), machine.on_another_runtime());
            let stream = other.device().stream();
            let mut buffer = backend.create::<f32>(BufferKind::Cuda, 10).unwrap();
            let source = backend.create::<f32>(BufferKind::Cuda, 10).unwrap();
            let own = backend.device().stream();
            for outcome in [
                buffer.fill_on(1.0, stream),
                buffer.copy_from_host_on(&[1.0; 10], stream),
                buffer.copy_to_host_on(&mut [1.0; 10], stream),
                buffer.copy_from_buffer_on(&*source, stream),
            ] {
                let mismatch = matches!(outcome, Err(Error::RuntimeMismatch { .. }));
                assert!(mismatch, "{outcome:?}");
            }
            let text = |outcome: um_backend::Result<()>| outcome.unwrap_err().to_string();
            let lengths = "10 elements expected, 9 found";
            let short = backend.create::<f32>(BufferKind::Cuda, 9).unwrap();
            assert_eq!(
                text(buffer.copy_from_host_on(&[1.0; 9], own)),
                format!("copy_from_host_on: {lengths}")
            );
            assert_eq!(
                text(buffer.copy_to_host_on(&mut [1.0; 9], own)),
                format!("copy_to_host_on: {lengths}")
            );
            assert_eq!(
                text(buffer.copy_from_buffer_on(&*short, own)),
                format!("copy_from_buffer_on: {lengths}")
            );
        },
    );
}
