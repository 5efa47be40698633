//! Beside the crate `safetensors`: what one writes the other reads, and both refuse the same files.

use proptest::collection::vec;
use proptest::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize};
use um_backend::BufferKind;
use um_weights::{LoadOptions, Save};

use crate::support::{Folder, Storage, backend, load_all};

const TYPES: [Dtype; 8] = [
    Dtype::BOOL,
    Dtype::U8,
    Dtype::F8_E8M0,
    Dtype::BF16,
    Dtype::F32,
    Dtype::C64,
    Dtype::I64,
    Dtype::F4,
];

#[derive(Clone, Debug)]
struct Made {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

prop_compose! {
    fn made()(
        dtype in 0..TYPES.len(),
        shape in vec(0usize..7, 0..4),
        seed in any::<u8>(),
    ) -> Made {
        let (dtype, mut shape) = (TYPES[dtype], shape);
        if dtype == Dtype::F4 {
            shape.push(2);
        }
        let bits = shape.iter().product::<usize>() * dtype.bitsize();
        let bytes = (0..bits / 8).map(|at| at as u8 ^ seed).collect();
        Made { dtype, shape, bytes }
    }
}

fn views(tensors: &[Made]) -> Vec<(String, TensorView<'_>)> {
    let mut views = Vec::new();
    for (number, made) in tensors.iter().enumerate() {
        let view = TensorView::new(made.dtype, made.shape.clone(), &made.bytes);
        views.push((format!("t{number}"), view.unwrap()));
    }
    views
}

proptest! {
    #[test]
    fn both_read_what_the_other_writes(tensors in vec(made(), 0..12)) {
        let backend = backend();
        let theirs = serialize(views(&tensors), None).unwrap();
        let (_storage, weights) = Storage::of(theirs).open();
        let weights = weights.unwrap();
        for (name, bytes) in load_all(&weights, &backend, BufferKind::Cuda) {
            let made = &tensors[name[1..].parse::<usize>().unwrap()];
            prop_assert_eq!(&bytes, &made.bytes);
            let info = weights.tensor(&name).unwrap();
            prop_assert_eq!(info.shape(), &made.shape[..]);
            prop_assert_eq!(info.dtype_name(), made.dtype.to_string());
        }
        let folder = Folder::new();
        let path = folder.path("ours");
        let mut save = Save::new();
        let loaded = weights.load(&backend, BufferKind::Cuda, &LoadOptions::default()).unwrap();
        for tensor in loaded.values() {
            save.tensor(tensor).unwrap();
        }
        save.write(&path).unwrap();
        let ours = std::fs::read(&path).unwrap();
        let ours = SafeTensors::deserialize(&ours).unwrap();
        prop_assert_eq!(ours.len(), tensors.len());
        for (name, view) in views(&tensors) {
            prop_assert_eq!(ours.tensor(&name).unwrap(), view);
        }
    }

    #[test]
    fn both_refuse_the_same_files(
        tensors in vec(made(), 0..5),
        at in any::<prop::sample::Index>(),
        change in 0usize..4,
        value in any::<u8>(),
    ) {
        let mut file = serialize(views(&tensors), None).unwrap();
        let place = at.index(file.len());
        match change {
            0 => file[place] = value,
            1 => file.truncate(place),
            2 => file.insert(place, value),
            // A digit or a bracket of the header.
            _ => {
                let length = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
                let place = 8 + at.index(length - 8);
                file[place] = b"0123456789[]{},:\""[usize::from(value) % 17];
            }
        }
        let theirs = SafeTensors::deserialize(&file).map(|tensors| tensors.len()).ok();
        let ours = Storage::of(file).open().1.map(|weights| weights.tensors().len());
        match ours {
            Ok(ours) => prop_assert_eq!(Some(ours), theirs),
            // The crate keeps one of two tensors with equal names.
            Err(error) if error.to_string().contains("is there twice") => {}
            Err(error) => prop_assert_eq!(theirs, None, "{}", error),
        }
    }
}
