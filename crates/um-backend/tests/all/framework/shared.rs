//! Storage that several tensors share.

use std::ops::Deref;

use um_backend::cuda_um::buffer::InPlace;
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaError, DType, ErasedBuffer, Result, SharedBuffer,
    conformance, cuda_um::View, half,
};

use crate::support::kernel::Double;
use crate::support::opaque::OpaqueBuffer;
use crate::support::{on_each, on_each_preset};

const ON_DEVICE: [BufferKind; 3] = [BufferKind::Unified, BufferKind::Cuda, BufferKind::Pinned];

/// `0.0, 1.0, …` in storage of each kind, and in storage of another implementation.
pub(crate) fn storages(backend: &CudaBackend, len: usize) -> Vec<(String, SharedBuffer)> {
    let numbers: Vec<f32> = (0..len).map(|i| i as f32).collect();
    let bytes = bytemuck::cast_slice(&numbers);
    let mut opaque: Box<dyn Buffer<u8>> = Box::new(OpaqueBuffer::<u8>::new(bytes.len()));
    opaque.copy_from_host(bytes).unwrap();
    let of = |kind| backend.create_erased_from(kind, DType::F32, bytes).unwrap();
    let kinds = BufferKind::ALL.map(|kind| (kind.to_string(), of(kind).into()));
    let opaque = ErasedBuffer::from_bytes(opaque, DType::F32).unwrap();
    kinds
        .into_iter()
        .chain([("opaque".to_owned(), opaque.into())])
        .collect()
}

pub(crate) fn floats(shared: &SharedBuffer) -> Vec<f32> {
    let mut floats = vec![0.0; shared.len()];
    shared.copy_to_host(&mut floats).unwrap();
    floats
}

#[test]
fn a_part_keeps_the_contract() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            for kind in BufferKind::ALL {
                let make = |len: usize| -> Result<Box<dyn Buffer<f32>>> {
                    let all = backend.create_erased(kind, DType::F32, len + 7)?;
                    let part = SharedBuffer::new(all).view(3..len + 3)?.write()?;
                    part.into_erased().into_typed::<f32>()
                };
                // A part that is a buffer of its own.
                let part = |len: usize| -> Result<Box<dyn Buffer<f32>>> {
                    let all = backend.create_erased(kind, DType::F32, len + 7)?;
                    let mut parts = all.into_parts(&[0..3, 3..3, 3..len + 3])?;
                    parts.remove(2).into_typed::<f32>()
                };
                for outcome in [conformance::all(&make), conformance::all(&part)] {
                    outcome.unwrap_or_else(|failure| panic!("{kind}: {failure}"));
                }
                let all = backend.create_erased(kind, DType::F32, 8).unwrap();
                assert!(all.into_parts(&[0..2, 5..9]).is_err(), "{kind}");
                let all = backend.create_erased(kind, DType::F32, 8).unwrap();
                let overlap = all.into_parts(&[1..3, 2..4]).map(drop);
                assert!(kind == BufferKind::Host || overlap.is_err(), "{kind}");
            }
        },
    );
}

#[test]
fn views_and_clones_are_the_same_storage() {
    on_each(|machine| {
        for (kind, all) in storages(&machine.backend(), 12) {
            let row = all.view(4..8).unwrap();
            let inner = row.view(1..3).unwrap();
            assert_eq!((inner.len(), inner.size_bytes()), (2, 8), "{kind}");
            assert_eq!((inner.byte_range(), inner.dtype()), (20..28, DType::F32));
            assert!(inner.shares_storage(&all.clone()) && !inner.is_empty());
            inner
                .write()
                .unwrap()
                .typed_mut()
                .unwrap()
                .fill(-1.0f32)
                .unwrap();
            assert_eq!(floats(&row), [4.0, -1.0, -1.0, 7.0], "{kind}");
            row.write()
                .unwrap()
                .typed_mut::<f32>()
                .unwrap()
                .copy_within(0..2, 2)
                .unwrap();
            assert_eq!(floats(&all)[3..9], [3.0, 4.0, -1.0, 4.0, -1.0, 8.0]);
            inner.write().unwrap().bytes_mut().set_zero().unwrap();
            let mut bytes = [9; 8];
            inner.read().unwrap().copy_to_bytes(&mut bytes).unwrap();
            assert_eq!(bytes, [0; 8], "{kind}");
            let copy = all.view(0..2).unwrap().read().unwrap().try_clone().unwrap();
            inner.write().unwrap().copy_from(&copy).unwrap();
            assert_eq!(floats(&row), [4.0, 0.0, 1.0, -1.0], "{kind}");
            let mut file = Vec::new();
            inner.read().unwrap().write_to(&mut file, 0..2).unwrap();
            row.write()
                .unwrap()
                .read_from(&mut &file[..], 2..4)
                .unwrap();
            assert_eq!(floats(&row), [4.0, 0.0, 0.0, 1.0], "{kind}");
            assert_eq!(all.view(12..12).unwrap().len(), 0);
        }
    });
}

#[test]
fn a_cast_is_another_look_at_the_bytes() {
    on_each(|machine| {
        for (kind, all) in storages(&machine.backend(), 4) {
            let bits = all.view(1..2).unwrap().cast(DType::U32).unwrap();
            assert_eq!(*bits.host::<u32>().unwrap(), [1f32.to_bits()], "{kind}");
            let halves = all.cast(DType::BF16).unwrap();
            assert_eq!(halves.len(), 8);
            assert_eq!(halves.host::<half::bf16>().unwrap()[3], half::bf16::ONE);
            // At an odd address: copies work, and slices of the host are copies.
            let odd = all.cast(DType::U8).unwrap().view(1..9).unwrap();
            let odd = odd.cast(DType::I32).unwrap();
            let mut elements = odd.host_mut::<i32>().unwrap();
            assert!(elements.is_copy(), "{kind}");
            elements.copy_from_slice(&[0x0102_0304, -1]);
            elements.close().unwrap();
            assert_eq!(*odd.host::<i32>().unwrap(), [0x0102_0304, -1], "{kind}");
            let bytes = all.whole();
            assert_eq!((bytes.dtype(), bytes.len()), (DType::U8, 16));
            assert_eq!(bytes.host::<u8>().unwrap()[..6], [0, 4, 3, 2, 1, 255]);
        }
    });
}

#[test]
fn wrong_casts_views_and_types_are_refused() {
    on_each(|machine| {
        let backend = machine.backend();
        let all: SharedBuffer = backend
            .create_erased(BufferKind::Unified, DType::U16, 5)
            .unwrap()
            .into();
        let text = |error: CudaError| error.to_string();
        assert_eq!(
            text(all.cast(DType::F32).unwrap_err()),
            "the dtype of a cast cannot be f32: the 5 elements of u16 have 10 bytes, which is no multiple of 4"
        );
        assert!(text(all.cast(DType::Opaque(0)).unwrap_err()).contains("at least one byte"));
        assert_eq!(
            text(all.view(3..6).unwrap_err()),
            "range 3..6 is not within the buffer's 5 elements"
        );
        let expected =
            "dtype i16 was requested, but the element type is u16: both must be the same";
        assert_eq!(text(all.host::<i16>().unwrap_err()), expected);
        assert_eq!(text(all.host_mut::<i16>().unwrap_err()), expected);
        assert_eq!(
            text(all.read().unwrap().view::<i16>().unwrap_err()),
            expected
        );
        let odd = all.whole().view(1..9).unwrap().cast(DType::F32).unwrap();
        let refused = text(odd.write().unwrap().view_mut::<f32>().unwrap_err());
        assert!(refused.contains("the alignment is 4"), "{refused}");
    });
}

#[test]
fn guards_are_arguments_of_launches() {
    on_each(|machine| {
        let backend = machine.backend();
        let device = backend.device();
        let double = Double::load(device);
        for kind in ON_DEVICE {
            let all = SharedBuffer::new(backend.create_erased(kind, DType::F32, 8).unwrap());
            let part = all.view(2..6).unwrap();
            all.write()
                .unwrap()
                .typed_mut()
                .unwrap()
                .fill(1.0f32)
                .unwrap();
            double
                .launch_on(device, 4, (&mut part.write().unwrap(), 4u32))
                .unwrap();
            let mut guard = part.write().unwrap();
            let (_, mut last) = guard.view_mut::<f32>().unwrap().split_at(3).unwrap();
            double.launch_on(device, 1, (&mut last, 1u32)).unwrap();
            let both: InPlace<'_, f32> = last.in_place();
            double.launch_on(device, 1, (both, 1u32)).unwrap();
            drop(guard);
            let expected = [1.0, 1.0, 2.0, 2.0, 2.0, 8.0, 1.0, 1.0];
            assert_eq!(floats(&all), expected, "{kind}");
            let read = part.read().unwrap();
            let view: View<'_, f32> = read.view().unwrap();
            assert_eq!(view.to_vec().unwrap(), expected[2..6]);
        }
    });
}

#[test]
fn only_the_viewed_part_is_copied_on_write() {
    on_each(|machine| {
        for (kind, all) in storages(&machine.backend(), 100) {
            let mut row = all.view(10..12).unwrap();
            assert!(!row.is_unique() && !all.is_unique());
            row.make_unique().unwrap();
            assert!(row.is_unique() && all.is_unique(), "{kind}");
            assert_eq!((row.whole().len(), row.byte_range()), (8, 0..8), "{kind}");
            assert_eq!(
                row.read()
                    .unwrap()
                    .device()
                    .map(um_backend::Device::ordinal),
                all.device().map(um_backend::Device::ordinal)
            );
            row.host_mut::<f32>().unwrap()[0] = -1.0;
            assert_eq!(floats(&row), [-1.0, 11.0], "{kind}");
            assert_eq!(floats(&all)[10..12], [10.0, 11.0], "{kind}");

            let storage = row.clone();
            drop(row);
            let (mut row, before) = (storage.clone(), storage.clone());
            drop(storage);
            drop(before);
            row.make_unique().unwrap();
            assert_eq!(floats(&row), [-1.0, 11.0], "unique storage stays");
            if kind == "unified" && !machine.is_concurrent() && machine.has_good_managed_memory() {
                continue; // The guard of managed memory holds the copy off.
            }
            // A guard has the storage, too: it keeps what it sees.
            let seen = row.host::<f32>().unwrap();
            row.make_unique().unwrap();
            row.write().unwrap().bytes_mut().set_zero().unwrap();
            let is_copy = seen.is_copy();
            assert_eq!((*seen).to_vec(), [-1.0, 11.0], "{kind} {is_copy}");
        }
    });
}

/// A tensor of any dtype whose `data` returns a guard without a lifetime.
struct Tensor(SharedBuffer);

impl Tensor {
    fn data(&self) -> Result<impl Deref<Target = [f32]> + use<>> {
        self.0.host()
    }
}

#[test]
fn slices_of_the_host_keep_the_access() {
    on_each(|machine| {
        for (kind, all) in storages(&machine.backend(), 4) {
            let tensor = Tensor(all.view(1..3).unwrap());
            let data = tensor.data().unwrap();
            drop(tensor);
            assert_eq!(*data, [1.0, 2.0], "{kind}");
            assert!(all.try_write().is_err(), "{kind}: also for a copy");
            drop(data);
            let is_copy = kind == "cuda" || kind == "opaque";
            let mut data = all.host_mut::<f32>().unwrap();
            assert_eq!(data.is_copy(), is_copy, "{kind}");
            data[3] = 9.0;
            assert!(all.try_read().is_err(), "{kind}: the slice may be written");
            assert_eq!(format!("{data:?}"), "[0.0, 1.0, 2.0, 9.0]");
            drop(data);
            assert_eq!(floats(&all), [0.0, 1.0, 2.0, 9.0], "{kind}");
        }
    });
}
