//! Out of memory, files, and profiles.

use crate::mini_framework::{everywhere, is_on_gpu, simulated};
use std::fs::File;
use std::io::{BufWriter, Write};
use um_backend::half::{bf16, f16};
use um_backend::sim::Gpu;
use um_backend::{BufferKind, DType, dtype::Bool};
use um_examples::mini_framework::{Cache, Place, Tensor, load, save};

#[test]
fn tensors_make_room_for_others() {
    if is_on_gpu() {
        return eprintln!("NOT RUN: needs a small device");
    }
    for kind in [BufferKind::Unified, BufferKind::Cuda] {
        let (_sim, backend) = simulated(Gpu::H200, |builder| builder.total_memory_bytes(64 << 20));
        let place = Place::new(&backend, kind).unwrap();
        let cache = Cache::default();
        let zeros = || Tensor::zeros(&place, DType::U8, &[10 << 20]);
        for _ in 0..20 {
            let tensor = cache.with_room(zeros).unwrap();
            cache.keep(tensor);
        }
        assert!((1..=6).contains(&cache.len()), "{kind}: {}", cache.len());
        let too_large = || Tensor::zeros(&place, DType::U8, &[80 << 20]);
        let error = cache.with_room(too_large).unwrap_err();
        assert!(error.is_out_of_memory() && cache.is_empty(), "{error}");
        assert_eq!(
            zeros().unwrap().data::<u8>().unwrap()[0],
            0,
            "{kind} goes on"
        );
    }
}

#[test]
fn vectors_are_tensors_without_a_copy_where_the_device_accesses_them() {
    if is_on_gpu() {
        return eprintln!("NOT RUN: plays other machines");
    }
    for (gpu, in_place) in [(Gpu::Gh200, true), (Gpu::Gb10, true), (Gpu::H200, false)] {
        let (sim, backend) = simulated(gpu, |builder| builder);
        let place = Place::new(&backend, BufferKind::Host).unwrap();
        let unified = Place::new(&backend, BufferKind::Unified).unwrap();
        sim.clear_trace();
        for place in [&unified, &place] {
            let vector = vec![2.0f32; 1 << 16];
            let at = vector.as_ptr();
            let tensor = Tensor::from_vec(place, vector, &[1 << 16]).unwrap();
            let found = tensor.data::<f32>().unwrap();
            assert_eq!((found.as_ptr() == at, found[7]), (in_place, 2.0), "{gpu:?}");
        }
        let other = Tensor::from_vec(&place, vec![2.0f32; 1 << 16], &[256, 256]).unwrap();
        let double = other.add(&other).unwrap();
        assert_eq!(double.data::<f32>().unwrap()[7], 4.0);
        let is_use = |name: &str| {
            name.starts_with("cudaMalloc")
                || name == "cudaHostAlloc"
                || name.starts_with("cudaMemcpy")
        };
        let uses = sim.trace().iter().filter(|call| is_use(call.name)).count();
        assert_eq!(
            uses == 0,
            in_place,
            "{gpu:?}: {uses} allocations and copies"
        );
        assert_eq!(
            sim.counters().kernels > 0,
            in_place,
            "the device computes in host memory"
        );
    }
}

fn weights(place: &Place) -> Vec<(String, Tensor)> {
    let named = |name: &str, tensor: um_backend::Result<Tensor>| (name.to_owned(), tensor.unwrap());
    vec![
        named(
            "bool",
            Tensor::from_slice(place, &[Bool(1), Bool(0), Bool(1)], &[3]),
        ),
        named(
            "f32",
            Tensor::from_slice(place, &[1.5f32; 300_000], &[3, 100_000]),
        ),
        named("u8", Tensor::from_slice(place, &[7u8; 5], &[5])),
        named("f16", Tensor::from_slice(place, &[f16::ONE; 9], &[3, 3])),
        named("bf16", Tensor::from_slice(place, &[bf16::PI; 4], &[4])),
        named(
            "i64",
            Tensor::from_slice(place, &[1i64, 2, 3, 4, 5, 6], &[2, 3]).map(|x| x.transpose(0, 1)),
        ),
    ]
}

/// Elements begin at odd bytes of the file, and go straight to their memory.
#[test]
fn weights_go_to_a_file_and_back() {
    everywhere(|place| {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut file = BufWriter::new(File::create(path.path()).unwrap());
        save(&weights(place), &mut file).unwrap();
        file.flush().unwrap();
        let read = load(place, &mut File::open(path.path()).unwrap()).unwrap();
        let again = load(place, &mut File::open(path.path()).unwrap()).unwrap();
        assert_eq!(read.len(), 6);
        for ((name, tensor), (_, written)) in read.iter().zip(&weights(place)) {
            assert_eq!(
                (tensor.shape(), tensor.dtype()),
                (written.shape(), written.dtype()),
                "{name}"
            );
        }
        assert_eq!(*read[5].1.data::<i64>().unwrap(), [1, 4, 2, 5, 3, 6]);
        let twice = read[1].1.add(&again[1].1).unwrap();
        assert!(twice.data::<f32>().unwrap().iter().all(|x| *x == 3.0));
        assert_eq!(*read[4].1.data::<bf16>().unwrap(), [bf16::PI; 4]);
    });
}

#[test]
fn damaged_files_are_refused() {
    everywhere(|place| {
        let mut file = Vec::new();
        save(&weights(place), &mut file).unwrap();
        let error = |bytes: &[u8]| load(place, &mut &bytes[..]).unwrap_err().to_string();
        assert!(error(&file[..4]).contains("failed to fill whole buffer"));
        assert!(
            error(&file[..20])
                .starts_with("the header of a file of tensors cannot be this JSON: EOF")
        );
        let short = error(&file[..file.len() - 1]);
        assert_eq!(
            short,
            "read_from: after 0 of 48 bytes: failed to fill whole buffer"
        );
    });
}

/// One blob of bytes, whose parts are tensors' storage: a cast of a view, at any byte.
#[test]
fn parts_of_a_blob_are_looked_at_as_other_types() {
    everywhere(|place| {
        let mut file = Vec::new();
        save(&weights(place), &mut file).unwrap();
        let blob = Tensor::from_slice(place, &file, &[file.len()]).unwrap();
        let end = file.len();
        let numbers = blob
            .storage()
            .view(end - 48..end)
            .unwrap()
            .cast(DType::I64)
            .unwrap();
        assert_eq!(*numbers.host::<i64>().unwrap(), [1, 4, 2, 5, 3, 6]);
        assert!(numbers.shares_storage(blob.storage()));
    });
}

#[test]
fn a_profile_says_what_moved() {
    if is_on_gpu() {
        return eprintln!("NOT RUN: the figures are those of the simulator");
    }
    let (_sim, backend) = simulated(Gpu::H200, |builder| builder);
    let place = Place::new(&backend, BufferKind::Unified).unwrap();
    let run = |prefetches: bool| {
        let work = || {
            let x = Tensor::zeros(&place, DType::F32, &[1 << 20])?;
            x.storage().write()?.bytes_mut().set_name("activations");
            x.storage().host_mut::<f32>()?.fill(1.0);
            if prefetches {
                x.prefetch()?;
            }
            Ok(x.sum()?.data::<f32>()?[0])
        };
        let (sum, report) = place.profile(work).unwrap();
        assert_eq!(sum, (1 << 20) as f32);
        report
    };
    let report = run(false);
    assert!(
        report.contains("activations") && report.contains("prefetch"),
        "{report}"
    );
    assert_ne!(run(true), report);
}
