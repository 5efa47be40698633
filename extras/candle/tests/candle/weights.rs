//! Files of weights: the same tensors, outputs and errors as with candle's own loader.

use crate::support::{numbers, world};
use candle_core::cuda::CudaStorageSlice;
use candle_core::{CpuStorage, DType, Device, Error, Module, Storage, Tensor};
use candle_nn::{Embedding, Linear, VarBuilder, embedding, linear};
use cuda_um::DeviceBuffer;
use cuda_um::buffer::ReadAt;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use um_candle::LoadedWeights;
use um_weights::Weights;

/// Types that candle computes with, converts (U16), only stores (F4, F8_E8M0), and refuses (BOOL).
const TYPES: [(&str, usize); 14] = [
    ("U8", 8),
    ("U32", 32),
    ("I16", 16),
    ("I32", 32),
    ("I64", 64),
    ("BF16", 16),
    ("F16", 16),
    ("F32", 32),
    ("F64", 64),
    ("F8_E4M3", 8),
    ("U16", 16),
    ("F4", 4),
    ("F8_E8M0", 8),
    ("BOOL", 8),
];
/// Name, type, shape: the weights of a [`Model`].
const MODEL: [(&str, &str, &[usize]); 5] = [
    ("embedding.weight", "F32", &[50, 24]),
    ("first.weight", "BF16", &[40, 24]),
    ("first.bias", "F32", &[40]),
    ("second.weight", "F32", &[8, 40]),
    ("second.bias", "BF16", &[8]),
];

/// Writes a file with a model, and a tensor of each type. Returns the size of the tensors.
fn write(path: &Path) -> u64 {
    let types = TYPES.map(|(dtype, _)| (dtype, dtype, &[6, 2][..]));
    let (mut header, mut data) = (Vec::new(), Vec::<u8>::new());
    for (name, dtype, shape) in MODEL.into_iter().chain(types) {
        let (_, bits) = TYPES.iter().find(|(known, _)| *known == dtype).unwrap();
        let (start, elements) = (data.len(), shape.iter().product::<usize>());
        let values = numbers(elements).into_iter().map(|value| value / 16.0);
        match dtype {
            "F32" => data.extend(values.flat_map(f32::to_ne_bytes)),
            "BF16" => {
                data.extend(values.flat_map(|value| half::bf16::from_f32(value).to_ne_bytes()))
            }
            _ => data.extend((0..elements * bits / 8).map(|at| (at * 7 % 60) as u8)),
        }
        let end = data.len();
        header.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", header.join(","));
    let length = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&length, header.as_bytes(), &data].concat()).unwrap();
    data.len() as u64
}

struct Model {
    embedding: Embedding,
    first: Linear,
    second: Linear,
}

impl Model {
    fn load(builder: &VarBuilder<'_>) -> candle_core::Result<Self> {
        Ok(Self {
            embedding: embedding(50, 24, builder.pp("embedding"))?,
            first: linear(24, 40, builder.pp("first"))?,
            second: linear(40, 8, builder.pp("second"))?,
        })
    }

    fn run(&self, device: &Device) -> candle_core::Result<Vec<Vec<f32>>> {
        let tokens = Tensor::new(&[3_u32, 49, 0, 3], device)?;
        let hidden = self.first.forward(&self.embedding.forward(&tokens)?)?;
        self.second.forward(&hidden.gelu()?)?.to_vec2()
    }
}

/// A file that counts the bytes that are read.
struct Counted(File, AtomicU64);

impl ReadAt for Counted {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.0.read_at(into, offset)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The type, the shape and the bytes.
fn contents(tensor: &Tensor) -> (DType, Vec<usize>, Vec<u8>) {
    fn bytes<T: Copy>(elements: &[T]) -> Vec<u8> {
        let bytes = size_of_val(elements);
        // SAFETY: the elements are numbers.
        unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), bytes) }.to_vec()
    }
    let (dtype, shape) = (tensor.dtype(), tensor.dims().to_vec());
    // Candle copies no tensor of these types to the host.
    if let Storage::Cuda(storage) = &*tensor.storage_and_layout().0
        && let CudaStorageSlice::F4(slice) | CudaStorageSlice::F8E8M0(slice) = &storage.slice
    {
        return (dtype, shape, storage.device.clone_dtoh(slice).unwrap());
    }
    let cpu = tensor.to_device(&Device::Cpu).unwrap();
    let found = match &*cpu.storage_and_layout().0 {
        Storage::Cpu(storage) => match storage {
            CpuStorage::U8(slice) => bytes(slice),
            CpuStorage::U32(slice) => bytes(slice),
            CpuStorage::I16(slice) => bytes(slice),
            CpuStorage::I32(slice) => bytes(slice),
            CpuStorage::I64(slice) => bytes(slice),
            CpuStorage::BF16(slice) => bytes(slice),
            CpuStorage::F16(slice) => bytes(slice),
            CpuStorage::F32(slice) => bytes(slice),
            CpuStorage::F64(slice) => bytes(slice),
            CpuStorage::F8E4M3(slice) => bytes(slice),
            CpuStorage::F4(slice) | CpuStorage::F8E8M0(slice) => slice.clone(),
            _ => panic!("another type"),
        },
        _ => panic!("not on the CPU"),
    };
    (dtype, shape, found)
}

/// The error without the backtrace that candle adds if `RUST_BACKTRACE` is set.
fn cause(error: Error) -> Error {
    match error {
        Error::WithBacktrace { inner, .. } => *inner,
        error => error,
    }
}

#[test]
fn tensors_outputs_and_errors_are_those_of_candles_own_loader() {
    let Some(world) = world() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let data = write(&path);
    for device in [Device::Cpu, world.candle().clone()] {
        let length = std::fs::metadata(&path).unwrap().len();
        let file = Arc::new(Counted(File::open(&path).unwrap(), AtomicU64::new(0)));
        let weights = Weights::from_storage("model", file.clone(), length).unwrap();
        let header = file.1.load(Ordering::Relaxed);
        let loaded = LoadedWeights::load(&weights, &device, |name| name != "F64").unwrap();
        let ours = VarBuilder::from_backend(Box::new(loaded), DType::F32, device.clone());
        // SAFETY: nothing changes the file.
        let theirs = unsafe { VarBuilder::from_mmaped_safetensors(&[&path], DType::F32, &device) };
        let theirs = theirs.unwrap();

        let [expected, found] = [&theirs, &ours].map(|builder| Model::load(builder).unwrap());
        let weights_of = |model: &Model| {
            let (first, second) = (&model.first, &model.second);
            let biases = [first.bias().unwrap(), second.bias().unwrap()];
            [
                model.embedding.embeddings(),
                first.weight(),
                biases[0],
                second.weight(),
                biases[1],
            ]
            .map(contents)
        };
        assert_eq!(weights_of(&expected), weights_of(&found));
        assert_eq!(expected.run(&device).unwrap(), found.run(&device).unwrap());

        for (name, _) in TYPES {
            let dtype = match name {
                "U16" => DType::U32,
                "BOOL" => continue,
                name => name.to_lowercase().replace('_', "").parse().unwrap(),
            };
            let [expected, found] = [&theirs, &ours].map(|builder| {
                let shaped = builder.get_with_hints_dtype((6, 2), name, Default::default(), dtype);
                let shaped = contents(&shaped.unwrap());
                // Once more: it was handed out.
                assert_eq!(
                    contents(&builder.get_unchecked_dtype(name, dtype).unwrap()),
                    shaped
                );
                shaped
            });
            assert_eq!(expected, found, "{name}");
        }
        // Once each, and the tensors of each type once more.
        let again = TYPES
            .iter()
            .map(|(_, bits)| 12 * *bits as u64 / 8)
            .sum::<u64>()
            - 12;
        assert_eq!(file.1.load(Ordering::Relaxed) - header, data - 12 + again);

        for builder in [&theirs, &ours] {
            assert!(builder.contains_tensor("F64") && !builder.contains_tensor("first"));
            let error = cause(builder.get(8, "absent").unwrap_err());
            assert!(
                matches!(&error, Error::CannotFindTensor { path } if path == "absent"),
                "{error}"
            );
            let error = cause(builder.pp("second").get((40, 8), "weight").unwrap_err());
            assert!(matches!(error, Error::UnexpectedShape { .. }));
            let text = error.to_string();
            for part in ["second.weight", "expected: [40, 8]", "got: [8, 40]"] {
                assert!(text.contains(part), "{text}");
            }
            let error = cause(builder.get((6, 2), "BOOL").unwrap_err());
            assert!(
                matches!(error, Error::UnsupportedSafeTensorDtype(_)),
                "{error}"
            );
        }
    }
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let Some(world) = world() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path);
    let weights = Weights::open([&path]).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(length - 1000)
        .unwrap();
    for device in [Device::Cpu, world.candle().clone()] {
        let error = LoadedWeights::load(&weights, &device, |_| true).unwrap_err();
        let shrunk = |found: &um_weights::Error| matches!(found, um_weights::Error::Shrunk { .. });
        assert!(
            matches!(&error, um_candle::Error::Weights(found) if shrunk(found)),
            "{error}"
        );
    }
}

/// The header of a file with one tensor of 24 MiB, of which the first 12 MiB can be read.
struct Broken(Vec<u8>);

impl ReadAt for Broken {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(header) = self.0.get(offset as usize..).filter(|it| !it.is_empty()) {
            let count = into.len().min(header.len());
            into[..count].copy_from_slice(&header[..count]);
            return Ok(count);
        }
        if offset > 12 << 20 {
            // Without the hook: a backtrace takes longer than the work.
            resume_unwind(Box::new("the storage is gone"));
        }
        into.fill(7);
        Ok(into.len())
    }
}

#[test]
fn a_load_that_panics_leaves_no_piece_in_flight() {
    let Some(world) = world() else { return };
    const BYTES: usize = 24 << 20;
    let text = format!(r#"{{"t":{{"dtype":"U8","shape":[{BYTES}],"data_offsets":[0,{BYTES}]}}}}"#);
    let header = [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let length = (header.len() + BYTES) as u64;
    let weights = Weights::from_storage("model", Arc::new(Broken(header)), length).unwrap();
    let ours = world.unified().ours().default_stream().unwrap();
    // The pieces wait behind this work.
    let mut busy = DeviceBuffer::<u8>::zeroed(world.unified().ours(), 64 << 20).unwrap();
    for value in 0..240 {
        busy.fill_on(value, &ours).unwrap();
    }
    let before = ours.record().unwrap();
    let load = AssertUnwindSafe(|| LoadedWeights::load(&weights, world.candle(), |_| true));
    assert!(catch_unwind(load).is_err());
    assert!(before.is_complete().unwrap());
}
