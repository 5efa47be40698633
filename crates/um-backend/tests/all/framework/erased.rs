//! Buffers whose element type is a value.

use um_backend::conformance;
use um_backend::cuda_um::Error;
use um_backend::{Buffer, BufferKind, DType, Element, ErasedBuffer, SharedBuffer, dtype::Bool};

use crate::support::kernel::Double;
use crate::support::opaque::OpaqueBuffer;
use crate::support::{on_each, on_each_preset};

/// A block of quantised weights: an element that this crate does not know.
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Block {
    scale: u16,
    weights: [u8; 16],
}

impl Element for Block {
    const DTYPE: DType = DType::Opaque(18);
}

const DTYPES: [DType; 6] = [
    DType::Bool,
    DType::F8E5M2,
    DType::BF16,
    DType::F32,
    DType::C128,
    DType::Opaque(18),
];

/// The contract of `Buffer` for each element type of an erased buffer of each kind.
fn typed<T: Element>(erased: ErasedBuffer) -> Box<dyn Buffer<T>> {
    erased.into_typed().unwrap()
}

fn keeps_the_contract<T: Element>() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            for kind in BufferKind::ALL {
                let make = |len| Ok(typed::<T>(backend.create_erased(kind, T::DTYPE, len)?));
                if let Err(failure) = conformance::all(&make) {
                    panic!("{kind} of {}: {failure}", T::DTYPE);
                }
            }
        },
    );
}

#[test]
fn typed_f32_keeps_the_contract() {
    keeps_the_contract::<f32>();
}

#[test]
fn typed_complex_numbers_keep_the_contract() {
    keeps_the_contract::<num_complex::Complex64>();
}

#[test]
fn typed_blocks_keep_the_contract() {
    keeps_the_contract::<Block>();
}

#[test]
fn an_implementation_from_outside_can_be_erased() {
    let make = |len: usize| {
        let bytes: Box<dyn Buffer<u8>> = Box::new(OpaqueBuffer::<u8>::new(len * 4));
        Ok(typed::<f32>(ErasedBuffer::from_bytes(bytes, DType::F32)?))
    };
    if let Err(failure) = conformance::all::<f32>(&make) {
        panic!("{failure}");
    }
}

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
    let bits: Vec<Bool> = [true, false].map(Bool::from).into();
    assert_eq!(bytemuck::cast_slice::<_, u8>(&bits), [1, 0]);
    assert!(bool::from(Bool(7)) && !bool::from(Bool(0)));
}
