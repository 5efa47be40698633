//! Rows over several devices: splits, launches, copies at the same time, failures of one device.

use cuda_um::ErrorKind;
use cuda_um::sys::cudaError;
use cuda_um_testkit::Checked;
use um_backend::sim::{Builder, Fail, Gpu, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, CudaError, DType, Sharded, Split};

use crate::support::kernel::Double;
use crate::support::on_each_preset;

/// A simulator with four devices of 128 MiB, and a backend for each.
fn four() -> (Checked, Vec<CudaBackend>) {
    let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
    let builder = builder.gpu(Gpu::H200).devices(4);
    let sim = Checked::new(builder.total_memory_bytes(128 << 20).build().unwrap());
    let config = CudaBackendConfig::default().simulator(Sim::clone(&sim));
    let first = CudaBackend::initialize_blocking(config).unwrap();
    let backends = (0..4).map(|ordinal| first.sibling(ordinal).unwrap());
    (sim, backends.collect())
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|number| number as f32).collect()
}

fn rows_of(sharded: &Sharded<f32>) -> Vec<usize> {
    let rows = (0..sharded.shard_count()).map(|shard| sharded.rows_of(shard));
    let rows = rows.inspect(|rows| assert!(rows.end <= sharded.rows()));
    rows.map(|rows| rows.len()).collect()
}

/// In proportion, complete, and in order.
#[test]
fn rows_are_split_as_asked() {
    let (_sim, backends) = four();
    let of = |rows, backends: &[CudaBackend], split| {
        Sharded::<f32>::zeroed(backends, BufferKind::Cuda, rows, 3, split).unwrap()
    };
    for (rows, weights, lens) in [
        (8, &[1.0; 4][..], &[2, 2, 2, 2][..]),
        (8, &[0.5, 0.0, 1.0, 0.5], &[2, 0, 4, 2]),
        (10, &[1.0; 3], &[3, 4, 3]),
        (2, &[1.0; 4], &[1, 0, 1, 0]),
        (0, &[1.0; 2], &[0, 0]),
        (4, &[f64::MAX, f64::MAX], &[2, 2]),
        (4, &[f64::MIN_POSITIVE, f64::MIN_POSITIVE], &[2, 2]),
        (3, &[5e-324, 1e300], &[0, 3]),
    ] {
        let sharded = of(rows, &backends[..weights.len()], Split::Weights(weights));
        assert_eq!(rows_of(&sharded), lens, "{weights:?}");
        let starts = (0..lens.len()).map(|shard| sharded.rows_of(shard).start);
        assert!(starts.eq((0..lens.len()).map(|shard| lens[..shard].iter().sum::<usize>())));
    }
    let sharded = of(8, &backends, Split::default());
    assert_eq!((sharded.rows(), sharded.row_len()), (8, 3));
    assert_eq!(rows_of(&sharded), [2; 4]);
    for shard in 0..4 {
        let device = sharded.shard(shard).device().unwrap();
        assert_eq!(device.ordinal(), shard as u32);
    }
}

/// Launches on all devices, and reads the whole.
#[test]
fn a_kernel_runs_on_each_shard() {
    on_each_preset(
        |builder| builder.devices(3),
        |machine| {
            let backends = machine.backends();
            let kernels: Vec<_> = backends
                .iter()
                .map(|backend| Double::load(backend.device()))
                .collect();
            for kind in [BufferKind::Unified, BufferKind::Cuda, BufferKind::Pinned] {
                let split = Split::Weights(&[3.0, 0.0, 1.0]);
                let mut rows =
                    Sharded::from_slice(&backends, kind, &numbers(40), 5, split).unwrap();
                let mut seen = Vec::new();
                let double = |rows: &mut Sharded<f32>, seen: &mut Vec<_>| {
                    rows.each_shard(|shard, backend, range, buffer| {
                        seen.push((shard, range.clone()));
                        assert_eq!(buffer.len(), range.len() * 5);
                        kernels[shard].launch(backend.device(), buffer)
                    })
                };
                double(&mut rows, &mut seen).unwrap();
                assert_eq!(seen, [(0, 0..6), (2, 6..8)], "an empty shard has no launch");
                rows.shard_mut(2).write_one(9, -1.0).unwrap();
                let mut right: Vec<_> = numbers(40).iter().map(|number| 2.0 * number).collect();
                right[39] = -1.0;
                assert_eq!(rows.to_vec().unwrap(), right, "{kind}");
            }
        },
    );
}

/// Also if they are so large that the copies of the shards run on threads.
#[test]
fn copies_go_to_all_shards() {
    let (_sim, backends) = four();
    for len in [0, 1 << 10, 5 << 18] {
        for kind in BufferKind::ALL {
            let split = Split::Weights(&[1.0, 0.0, 2.0, 1.0]);
            let elements = numbers(len);
            let mut rows = Sharded::from_slice(&backends, kind, &elements, 1 << 10, split).unwrap();
            assert!(rows.to_vec().unwrap() == elements, "{kind}");
            let others: Vec<_> = elements.iter().map(|number| -number).collect();
            rows.copy_from_host(&others).unwrap();
            assert!(rows.to_vec().unwrap() == others, "{kind}");
            assert!(rows.copy_from_host(&numbers(len + 1)).is_err());
        }
    }
}

/// `wrong_uses` has the texts of others.
#[test]
fn wrong_splits_are_refused() {
    let (_sim, backends) = four();
    let (two, even) = (&backends[..2], Split::Even);
    let twice = [&backends[1], &backends[0], &backends[1]].map(CudaBackend::clone);
    let weights = |weights| (two, 4, 2, Split::Weights(weights));
    for ((backends, rows, row_len, split), text) in [
        (weights(&[-0.5, 1.0]), "-0.5, of shard 0"),
        (weights(&[f64::INFINITY, 1.0]), "inf, of shard 0"),
        (weights(&[0.0; 2]), "the weights of Sharded cannot be all 0"),
        ((&[], 4, 2, even), "the devices of Sharded cannot be none"),
        ((&twice, 4, 2, even), "cannot be device 1 twice"),
        ((two, 4, 0, even), "the row length of Sharded cannot be 0"),
        ((two, usize::MAX, 3, even), "more than can be addressed"),
    ] {
        let made = Sharded::<f32>::zeroed(backends, BufferKind::Cuda, rows, row_len, split);
        let error = made.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{error}");
    }
}

fn names(error: &CudaError, shard: usize, device: u32) {
    let start = format!("shard {shard}, on device {device}: ");
    assert!(error.to_string().starts_with(&start), "{error}");
}

#[test]
fn a_device_without_memory_is_named() {
    let (_sim, backends) = four();
    let free = backends[2].device().memory_info().unwrap().free_bytes;
    let _used = backends[2]
        .create_buffer::<u8>(free - (8 << 20), DType::U8)
        .unwrap();
    let made = Sharded::<f32>::zeroed(&backends, BufferKind::Cuda, 4 << 22, 1, Split::Even);
    let error = made.unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    names(&error, 2, 2);
}

/// The shards of the other devices keep their rows, and take copies and launches.
#[test]
fn a_lost_device_is_named_and_the_others_survive() {
    let (sim, backends) = four();
    sim.breaks("a device is lost");
    let mut rows =
        Sharded::from_slice(&backends, BufferKind::Cuda, &numbers(16), 2, Split::Even).unwrap();
    for call in ["cudaMemsetAsync", "cuMemsetD32Async"] {
        let fail = Fail::call(call).on_device(1);
        sim.fail(fail.with(cudaError::cudaErrorIllegalAddress));
    }
    let check = |result: Result<(), CudaError>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sticky, "{error}");
        names(&error, 1, 1);
    };
    check(rows.each_shard(|_, _, _, shard| shard.fill(7.0)));
    check(rows.to_vec().map(drop));
    check(rows.each_shard(|_, backend, _, shard| shard.fill_on(8.0, backend.device().stream())));
    check(rows.copy_from_host(&numbers(16)));
    // Each call did the parts of the others.
    for shard in [0, 2, 3] {
        let range = rows.rows_of(shard);
        let right = &numbers(16)[range.start * 2..range.end * 2];
        assert_eq!(rows.shard(shard).to_vec().unwrap(), right);
        rows.shard_mut(shard).fill(9.0).unwrap();
        assert_eq!(rows.shard(shard).to_vec().unwrap(), [9.0; 4]);
    }
}
