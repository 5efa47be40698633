//! Element types as text, and buffers whose element type is a value.

use crate::support::kernel::Double;
use crate::support::on_each;
use crate::support::opaque::OpaqueBuffer;
use um_backend::{BufferKind, DType, ErasedBuffer, SharedBuffer, cuda_um::Error, dtype};

use DType::*;

const DTYPES: [DType; 6] = [Bool, F8E5M2, BF16, F32, C128, Opaque(18)];

#[test]
fn bytes_go_in_and_out_from_any_address() {
    on_each(|machine| {
        let backend = machine.backend();
        for (kind, dtype) in BufferKind::ALL
            .into_iter()
            .flat_map(|kind| DTYPES.map(|d| (kind, d)))
        {
            let what = format!("{kind} of {dtype}");
            let mut erased = backend.create_erased(kind, dtype, 100).unwrap();
            let bytes = 100 * dtype.size_bytes();
            assert_eq!((erased.len(), erased.size_bytes()), (100, bytes), "{what}");
            let source: Vec<u8> = (0..=bytes).map(|i| i as u8).collect();
            erased.bytes_mut().copy_from_host(&source[1..]).unwrap();
            let mut back = vec![0; bytes + 1];
            erased.bytes().copy_to_host(&mut back[1..]).unwrap();
            assert_eq!(back[1..], source[1..], "{what}");
            let clone = erased.try_clone().unwrap();
            erased.bytes_mut().set_zero().unwrap();
            assert_eq!(erased.bytes().to_vec().unwrap(), vec![0; bytes], "{what}");
            erased.copy_from(&clone).unwrap();
            assert_eq!(erased.bytes().to_vec().unwrap(), source[1..], "{what}");
            let from = backend.create_erased_from(kind, dtype, &source[1..]);
            assert_eq!(
                from.unwrap().bytes().to_vec().unwrap(),
                source[1..],
                "{what}"
            );
        }
    });
}

#[test]
fn the_host_memory_of_any_type_is_aligned() {
    on_each(|machine| {
        let backend = machine.backend();
        for len in [0, 1, 3, 1000] {
            let mut erased = backend
                .create_erased(BufferKind::Host, DType::C128, len)
                .unwrap();
            type Complex = num_complex::Complex64;
            let view = erased.typed_mut::<Complex>().unwrap().host_mut().unwrap();
            assert!(!view.is_copy() && view.as_ptr().addr().is_multiple_of(64) || len == 0);
        }
    });
}

/// Those that are not in `wrong_uses`.
#[test]
fn wrong_sizes_are_refused_with_both_values() {
    on_each(|machine| {
        let backend = machine.backend();
        let mut erased = backend
            .create_erased(BufferKind::Unified, DType::F32, 10)
            .unwrap();
        let longer = erased.clone_empty(11).unwrap();
        for parts in [[0..2, 5..11], [1..3, 2..4]] {
            let all = backend
                .create_erased(BufferKind::Cuda, DType::F32, 10)
                .unwrap();
            assert!(all.into_parts(&parts).is_err(), "{parts:?}");
        }
        let text = erased.copy_from(&longer).unwrap_err().to_string();
        assert_eq!(text, "copy_from: 10 elements expected, 11 found");
        let too_large = backend.create_erased(BufferKind::Cuda, DType::F64, usize::MAX / 8);
        assert!(matches!(
            too_large,
            Err(Error::TooLarge {
                element_bytes: 8,
                ..
            })
        ));
        let part = ErasedBuffer::from_bytes(Box::new(OpaqueBuffer::<u8>::new(7)), DType::F32);
        let text = part.unwrap_err().to_string();
        assert!(
            text.contains("cannot be 7 bytes: an element of f32 has 4 bytes"),
            "{text}"
        );
    });
}

#[test]
fn a_boxed_buffer_is_an_argument_as_it_is() {
    on_each(|machine| {
        let backend = machine.backend();
        let mut boxed = backend.create::<f32>(BufferKind::Cuda, 3).unwrap();
        boxed.fill(1.5).unwrap();
        let double = Double::load(backend.device());
        let launched = double.launch_on(backend.device(), 3, (&mut boxed, 3u32));
        launched.unwrap();
        assert_eq!(boxed.to_vec().unwrap(), [3.0; 3]);
    });
}

#[test]
fn every_storage_is_a_text_with_its_first_elements() {
    on_each(|machine| {
        let backend = machine.backend();
        let bytes: Vec<u8> = [1.5f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let of = |kind, dtype| backend.create_erased_from(kind, dtype, &bytes).unwrap();
        let mut erased = of(BufferKind::Cuda, DType::F32);
        erased.bytes_mut().set_name("bias");
        let text = "f32[2] in device memory: [1.5, 2.0]";
        assert_eq!(erased.to_string(), format!("`bias`, {text}"));
        assert_eq!(
            SharedBuffer::new(erased).to_string(),
            format!("`bias`, {text}")
        );
        let boxed = backend
            .create_from(BufferKind::Cuda, &[1.5f32, 2.0])
            .unwrap();
        assert_eq!(boxed.to_string(), text);
        let block = of(BufferKind::Cuda, DType::Opaque(8)).to_string();
        let end = "opaque8[1], u8[8] in device memory: [0, 0, 192, 63, 0, 0, 0, 64]";
        assert_eq!(block, end);
    });
}

#[test]
fn bool_is_a_byte() {
    let bits: Vec<dtype::Bool> = [true, false].map(dtype::Bool::from).into();
    assert_eq!(bytemuck::cast_slice::<_, u8>(&bits), [1, 0]);
    assert!(bool::from(dtype::Bool(7)) && !bool::from(dtype::Bool(0)));
}

const NAMED: [DType; 17] = [
    Bool, F8E4M3, F8E5M2, F16, BF16, F32, F64, C64, C128, I8, I16, I32, I64, U8, U16, U32, U64,
];

#[test]
fn every_name_is_of_one_type_and_comes_back() {
    for dtype in NAMED {
        let numpy = dtype.numpy_name().unwrap();
        let names = [Some(dtype.name()), dtype.safetensors_name(), Some(numpy)];
        for name in names.into_iter().flatten() {
            assert_eq!(name.parse::<DType>().unwrap(), dtype, "{name}");
        }
        let digits = numpy.trim_start_matches(|c: char| !c.is_ascii_digit());
        if let Ok(bits) = digits.parse::<usize>() {
            assert_eq!(dtype.size_bytes() * 8, bits, "{dtype}");
        }
        let text = serde_json::to_string(&dtype).unwrap();
        assert_eq!(text, format!("\"{dtype}\""));
        assert_eq!(serde_json::from_str::<DType>(&text).unwrap(), dtype);
    }
    assert_eq!("|V18".parse::<DType>().unwrap(), DType::Opaque(18));
    assert_eq!(DType::Opaque(18).to_string(), "opaque18");
    assert_eq!(DType::C128.safetensors_name(), None);
    assert_eq!("<c16".parse::<DType>().unwrap(), DType::C128);
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    for name in [
        "", "f33", ">f4", "opaque", "opaque0", "opaque-1", "|V0", "Float32",
    ] {
        let text = name.parse::<DType>().unwrap_err().to_string();
        let start = format!("a dtype cannot be {name:?}: the names are bool, ");
        assert!(
            text.starts_with(&start) && text.contains("opaque"),
            "{text}"
        );
    }
    assert!(serde_json::from_str::<DType>(r#""f33""#).is_err());
}
