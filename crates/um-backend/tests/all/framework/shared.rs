//! Storage that several tensors share.

use std::ops::Deref;

use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaError, DType, Device, ErasedBuffer, Result, SharedBuffer,
    half,
};

use crate::support::on_each;
use crate::support::opaque::OpaqueBuffer;

/// `0.0, 1.0, …` in storage of each kind, and in storage of another implementation.
pub(crate) fn storages(backend: &CudaBackend, len: usize) -> Vec<(String, SharedBuffer)> {
    let numbers: Vec<f32> = (0..len).map(|i| i as f32).collect();
    let bytes = bytemuck::cast_slice(&numbers);
    let mut opaque: Box<dyn Buffer<u8>> = Box::new(OpaqueBuffer::<u8>::new(bytes.len()));
    opaque.copy_from_host(bytes).unwrap();
    let of = |kind| backend.create_erased_from(kind, DType::F32, bytes).unwrap();
    let kinds = BufferKind::ALL.map(|kind| (kind.to_string(), SharedBuffer::new(of(kind))));
    let opaque = ErasedBuffer::from_bytes(opaque, DType::F32).unwrap();
    let opaque = ("opaque".to_owned(), SharedBuffer::new(opaque));
    kinds.into_iter().chain([opaque]).collect()
}

pub(crate) fn floats(shared: &SharedBuffer) -> Vec<f32> {
    let mut floats = vec![0.0; shared.len()];
    shared.copy_to_host(&mut floats).unwrap();
    floats
}

#[test]
fn views_casts_and_clones_are_the_same_storage() {
    on_each(|machine| {
        for (kind, all) in storages(&machine.backend(), 12) {
            let row = all.view(4..8).unwrap();
            let inner = row.view(1..3).unwrap();
            assert_eq!((inner.len(), inner.size_bytes()), (2, 8), "{kind}");
            assert!(inner.shares_storage(&all.clone()) && !inner.is_empty());
            let mut guard = inner.write().unwrap();
            guard.typed_mut().unwrap().fill(-1.0f32).unwrap();
            drop(guard);
            assert_eq!(floats(&row), [4.0, -1.0, -1.0, 7.0], "{kind}");
            let mut guard = row.write().unwrap();
            guard
                .typed_mut::<f32>()
                .unwrap()
                .copy_within(0..2, 2)
                .unwrap();
            drop(guard);
            assert_eq!(floats(&all)[3..9], [3.0, 4.0, -1.0, 4.0, -1.0, 8.0]);
            let copy = all.view(0..2).unwrap().read().unwrap().try_clone().unwrap();
            inner.write().unwrap().copy_from(&copy).unwrap();
            let mut file = Vec::new();
            inner
                .read()
                .unwrap()
                .bytes()
                .write_to(&mut file, 0..8)
                .unwrap();
            let mut guard = row.write().unwrap();
            guard.bytes_mut().read_from(&mut &file[..], 8..16).unwrap();
            drop(guard);
            assert_eq!(floats(&row), [4.0, 0.0, 0.0, 1.0], "{kind}");
            assert_eq!(all.view(12..12).unwrap().len(), 0);

            let halves = row.cast(DType::BF16).unwrap();
            assert_eq!(halves.host::<half::bf16>().unwrap()[7], half::bf16::ONE);
            // At an odd address: copies work, slices of the host are copies, and kernels are refused.
            let odd = row.cast(DType::U8).unwrap().view(1..9).unwrap();
            let odd = odd.cast(DType::I32).unwrap();
            let mut elements = odd.host_mut::<i32>().unwrap();
            assert!(elements.is_copy(), "{kind}");
            elements.copy_from_slice(&[0x0102_0304, -1]);
            elements.close().unwrap();
            assert_eq!(*odd.host::<i32>().unwrap(), [0x0102_0304, -1], "{kind}");
            assert!(odd.write().unwrap().view_mut::<i32>().is_err());
            let bytes = all.whole();
            assert_eq!((bytes.dtype(), bytes.len()), (DType::U8, 48));
            assert_eq!(bytes.host::<u8>().unwrap()[17..21], [4, 3, 2, 1]);
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
            assert_eq!(row.whole().len(), 8, "{kind}");
            let ordinal = |of: &SharedBuffer| of.device().map(Device::ordinal);
            assert_eq!(ordinal(&row), ordinal(&all));
            row.host_mut::<f32>().unwrap()[0] = -1.0;
            assert_eq!(floats(&row), [-1.0, 11.0], "{kind}");
            assert_eq!(floats(&all)[10..12], [10.0, 11.0], "{kind}");
            if kind == "unified" && !machine.is_concurrent() && machine.has_good_managed_memory() {
                continue; // The guard of managed memory holds the copy off.
            }
            // A guard has the storage, too: it keeps what it sees.
            let seen = row.host::<f32>().unwrap();
            row.make_unique().unwrap();
            row.write().unwrap().bytes_mut().set_zero().unwrap();
            assert_eq!(*seen, [-1.0, 11.0], "{kind}");
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
            let mut data = all.host_mut::<f32>().unwrap();
            assert_eq!(data.is_copy(), ["cuda", "opaque"].contains(&&*kind));
            data[3] = 9.0;
            let refused = all.try_read().unwrap_err();
            assert!(matches!(refused, CudaError::Busy { .. }), "{kind}");
            drop(data);
            assert_eq!(floats(&all), [0.0, 1.0, 2.0, 9.0], "{kind}");
            // The access of a part ends with it, and a reader writes nothing.
            let part = all.read().unwrap().into_erased().into_typed::<f32>();
            let mut part = part.unwrap();
            let mut refused = vec![part.write_one(0, 1.0).unwrap_err()];
            if !part.host().unwrap().is_copy() {
                refused.push(part.host_mut().map(drop).unwrap_err());
            }
            for refused in refused {
                assert!(refused.to_string().contains("a write guard"), "{refused}");
            }
            drop(part);
            assert!(all.try_write().is_ok(), "{kind}");
        }
    });
}
