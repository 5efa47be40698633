//! Buffers whose element type is a value.

use std::sync::Arc;

use um_backend::conformance;
use um_backend::cuda_um::Error;
use um_backend::{
    Buffer, BufferKind, DType, Element, ErasedBuffer,
    dtype::{Bool, F8E4M3},
};

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
            let width = dtype.size_bytes();
            assert_eq!(
                (erased.len(), erased.size_bytes()),
                (100, 100 * width),
                "{what}"
            );
            assert_eq!(
                (erased.dtype(), erased.is_empty()),
                (dtype, false),
                "{what}"
            );
            let bytes: Vec<u8> = (0..=100 * width).map(|i| i as u8).collect();
            erased.copy_from_bytes(&bytes[1..]).unwrap();
            let last = &bytes[..2 * width];
            erased
                .bytes_mut()
                .copy_from_host_at(98 * width, last)
                .unwrap();
            let mut back = vec![0; 100 * width + 1];
            erased.copy_to_bytes(&mut back[1..]).unwrap();
            assert_eq!(back[1..=98 * width], bytes[1..=98 * width], "{what}");
            assert_eq!(back[98 * width + 1..], bytes[..2 * width], "{what}");
            let clone = erased.try_clone().unwrap();
            erased.bytes_mut().set_zero().unwrap();
            assert_eq!(
                erased.bytes().to_vec().unwrap(),
                vec![0; 100 * width],
                "{what}"
            );
            erased.copy_from(&clone).unwrap();
            assert_eq!(erased.bytes().to_vec().unwrap(), back[1..], "{what}");
            let from = backend
                .create_erased_from(kind, dtype, &bytes[1..])
                .unwrap();
            assert_eq!(from.bytes().to_vec().unwrap(), bytes[1..], "{what}");
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
            text.contains("cannot be 7 bytes: an element has 4 bytes"),
            "{text}"
        );
    });
}

/// Tensors share storage without a lock: reads through the `Arc`, one writer by `get_mut`, copy on write by `make_mut`.
#[test]
fn shared_storage_is_copied_on_write() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            let mut first = Arc::new(backend.create_erased(kind, DType::F8E4M3, 4).unwrap());
            let before = std::ptr::from_ref(&*first);
            ErasedBuffer::make_mut(&mut first)
                .unwrap()
                .copy_from_bytes(&[1; 4])
                .unwrap();
            assert!(
                std::ptr::eq(before, &*first),
                "{kind}: the only handle is not copied"
            );
            let mut second = Arc::clone(&first);
            let written = ErasedBuffer::make_mut(&mut second).unwrap();
            written.typed_mut().unwrap().fill(F8E4M3(9)).unwrap();
            assert_eq!(first.bytes().to_vec().unwrap(), [1; 4], "{kind}");
            assert_eq!(second.bytes().to_vec().unwrap(), [9; 4], "{kind}");
        }
    });
}

#[test]
fn bool_is_a_byte() {
    let bits: Vec<Bool> = [true, false].map(Bool::from).into();
    assert_eq!(bytemuck::cast_slice::<_, u8>(&bits), [1, 0]);
    assert!(bool::from(Bool(7)) && !bool::from(Bool(0)));
}
