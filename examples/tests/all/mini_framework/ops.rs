//! Operations, views and copy on write.

use crate::mini_framework::everywhere;
use std::ops::Deref;
use um_backend::half::{bf16, f16};
use um_backend::{BufferKind, DType, Result, dtype::Bool};
use um_examples::mini_framework::{Place, Scalar, Tensor};

fn vec<T: Scalar>(tensor: &Tensor) -> Vec<T> {
    tensor.data::<T>().unwrap().to_vec()
}

/// Numbers that every dtype but bool has exactly, and whose products it has too.
fn numbers<T: Scalar>(len: usize) -> Vec<T> {
    (0..len).map(|i| T::of((i % 13) as f64)).collect()
}

fn arithmetic<T: Scalar>(place: &Place) {
    let (a, b) = (numbers::<T>(600), vec![T::of(3.0); 600]);
    let x = Tensor::from_slice(place, &a, &[20, 30]).unwrap();
    let y = Tensor::from_slice(place, &b, &[20, 30]).unwrap();
    let expected =
        |op: fn(T, T) -> T| -> Vec<T> { a.iter().zip(&b).map(|(a, b)| op(*a, *b)).collect() };
    assert_eq!(
        vec::<T>(&x.add(&y).unwrap()),
        expected(T::plus),
        "{}",
        T::DTYPE
    );
    assert_eq!(
        vec::<T>(&x.mul(&y).unwrap()),
        expected(T::times),
        "{}",
        T::DTYPE
    );
    let mut z = x.clone();
    z.scale(3.0).unwrap();
    assert_eq!(vec::<T>(&z), expected(T::times), "{}", T::DTYPE);
    z = x.clone();
    z.add_assign(&y).unwrap();
    z.add_assign(&z.clone()).unwrap();
    let sum: Vec<T> = expected(T::plus).into_iter().map(|x| x.plus(x)).collect();
    assert_eq!(vec::<T>(&z), sum, "{}", T::DTYPE);
    assert_eq!(vec::<T>(&x), a, "the first tensor is as it was");
    let columns = x.transpose(0, 1).narrow(0, 1..3).unwrap();
    let column: Vec<T> = [1, 2]
        .into_iter()
        .flat_map(|j| (0..20).map(move |i| i * 30 + j))
        .map(|i| a[i])
        .collect();
    assert_eq!(vec::<T>(&columns), column, "{}", T::DTYPE);
}

#[test]
fn six_dtypes() {
    everywhere(|place| {
        arithmetic::<f32>(place);
        arithmetic::<f16>(place);
        arithmetic::<bf16>(place);
        arithmetic::<i64>(place);
        arithmetic::<u8>(place);
        arithmetic::<Bool>(place);
    });
}

/// The GPU and the CPU round in the same way.
#[test]
fn the_cpu_computes_the_same_bits() {
    everywhere(|place| {
        let host = Place::new(place.backend(), BufferKind::Host).unwrap();
        let values: Vec<f32> = (0..512).map(|i| (i as f32 * 0.37).sin()).collect();
        let halves: Vec<f16> = values.iter().map(|x| f16::from_f32(*x)).collect();
        let floats: Vec<bf16> = values.iter().map(|x| bf16::from_f32(*x)).collect();
        let results = [place, &host].map(|place| {
            let x = Tensor::from_slice(place, &values, &[16, 32]).unwrap();
            let product = x.matmul(&x.transpose(0, 1)).unwrap();
            let h = Tensor::from_slice(place, &halves, &[512]).unwrap();
            let b = Tensor::from_slice(place, &floats, &[512]).unwrap();
            let h = h.mul(&h).unwrap().add(&h).unwrap();
            let b = b.mul(&b).unwrap().add(&b).unwrap();
            let sum = x.sum().unwrap();
            (
                vec::<f32>(&product),
                vec::<f32>(&sum),
                vec::<f16>(&h),
                vec::<bf16>(&b),
            )
        });
        assert_eq!(results[0], results[1]);
    });
}

#[test]
fn views_are_the_same_storage() {
    everywhere(|place| {
        let x = Tensor::from_slice(place, &numbers::<i64>(24), &[2, 3, 4]).unwrap();
        let part = x.narrow(2, 1..3).unwrap().narrow(0, 1..2).unwrap();
        assert!(part.storage().shares_storage(x.storage()) && !part.is_contiguous());
        assert_eq!(vec::<i64>(&part), [13, 14, 17, 18, 21, 22].map(|i| i % 13));
        let flat = x.reshape(&[24]).unwrap();
        assert!(
            flat.storage().shares_storage(x.storage()),
            "a reshape copies nothing"
        );
        let row = flat.narrow(0, 4..8).unwrap().reshape(&[1, 4]).unwrap();
        assert!(row.storage().shares_storage(x.storage()) && row.is_contiguous());
        let rows = row.expand(&[3, 4]).unwrap();
        assert_eq!(vec::<i64>(&rows), [4, 5, 6, 7].repeat(3));
        let empty = x.narrow(1, 2..2).unwrap();
        assert!(empty.is_empty() && vec::<i64>(&empty.add(&empty).unwrap()).is_empty());
        // A write through the storage is seen by every view.
        x.storage().host_mut::<i64>().unwrap()[5] = -1;
        assert_eq!(vec::<i64>(&row), [4, -1, 6, 7]);
    });
}

#[test]
fn shared_storage_is_copied_on_write() {
    everywhere(|place| {
        let x = Tensor::from_slice(place, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        let mut y = x.clone();
        assert!(y.storage().shares_storage(x.storage()));
        y.scale(2.0).unwrap();
        assert!(!y.storage().shares_storage(x.storage()));
        let own = y.storage().clone();
        let before = own.clone();
        drop(own);
        drop(before);
        y.add_assign(&x).unwrap();
        assert_eq!(
            (vec::<f32>(&x), vec::<f32>(&y)),
            (vec![1.0, 2.0, 3.0, 4.0], vec![3.0, 6.0, 9.0, 12.0])
        );
        // Only the row is copied.
        let mut row = x.narrow(0, 1..2).unwrap();
        row.scale(0.0).unwrap();
        assert_eq!((row.storage().whole().len(), vec::<f32>(&x)[2]), (8, 3.0));
    });
}

/// The elements without a lifetime, and without a copy if the host can access them.
fn lend(tensor: Tensor) -> Result<impl Deref<Target = [f32]>> {
    tensor.data::<f32>()
}

#[test]
fn data_outlives_its_tensor() {
    everywhere(|place| {
        let x = Tensor::from_slice(place, &[1.0f32, 2.0], &[2]).unwrap();
        let data = lend(x.add(&x).unwrap()).unwrap();
        assert_eq!(data.iter().sum::<f32>(), 6.0);
    });
}

#[test]
fn wrong_operands_are_refused() {
    everywhere(|place| {
        let x = Tensor::zeros(place, DType::F32, &[2, 3]).unwrap();
        let text = |result: Result<Tensor>| result.unwrap_err().to_string();
        let y = Tensor::zeros(place, DType::F16, &[2, 3]).unwrap();
        assert_eq!(
            text(x.add(&y)),
            "an operand cannot be f16 [2, 3]: the other tensor has f32 [2, 3]"
        );
        assert_eq!(
            text(x.matmul(&x)),
            "a matrix product cannot be [2, 3] · [2, 3]: the inner lengths differ"
        );
        assert_eq!(
            text(x.narrow(1, 2..4)),
            "a range cannot be 2..4: the dimension has 3 elements"
        );
        assert_eq!(
            text(x.narrow(2, 0..1)),
            "a dimension cannot be 2: the tensor has 2"
        );
        assert_eq!(
            text(x.reshape(&[5])),
            "a shape cannot be [5]: the tensor has 6 elements"
        );
        assert_eq!(
            text(x.expand(&[4, 3])),
            "a shape cannot be [4, 3]: the tensor has [2, 3]"
        );
        let deep = Tensor::zeros(place, DType::U8, &[1, 2, 1, 2, 2])
            .unwrap()
            .transpose(1, 4);
        assert_eq!(
            text(deep.contiguous()),
            "a shape cannot be [1, 2, 1, 2, 2]: a copy has up to 4 dimensions"
        );
        assert_eq!(
            x.data::<f16>().err().unwrap().to_string(),
            "dtype f16 was requested, but the element type is f32: both must be the same"
        );
        let other = Tensor::zeros(place, DType::C64, &[2]).unwrap();
        let error = other.clone().scale(2.0).unwrap_err().to_string();
        assert_eq!(
            error,
            "a dtype cannot be c64: f32, f16, bf16, i64, u8 and bool are supported"
        );
    });
}
