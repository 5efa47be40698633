//! Buffers that are lent to candle for a while.

use crate::support::{numbers, world};
use cuda_um::UnifiedBuffer;
use std::panic::AssertUnwindSafe;
use um_candle::Error;

#[test]
fn a_lent_buffer_is_a_tensor_and_comes_back() {
    let Some(world) = world() else { return };
    let unified = world.unified();
    let mut buffer = UnifiedBuffer::from_slice(unified.ours(), &numbers(16)).unwrap();
    let ordinary = world.ordinary(&[1.0; 16], (4, 4));
    buffer.host_mut().unwrap()[0] = 5.0;
    let (mut kept, mut product) = (None, None);
    // SAFETY: the work moves nothing out of the storage.
    let lent = unsafe {
        unified.lend(buffer, (4, 4), |tensor| {
            world.delay();
            product = Some(tensor.matmul(&ordinary)?);
            kept = Some((tensor.clone(), tensor.narrow(0, 1, 1)?));
            // The host's access works, too.
            unified
                .host_mut(tensor, |elements: &mut [f32]| elements[15] = 7.0)
                .map_err(candle_core::Error::wrap)?;
            Ok(tensor.elem_count())
        })
    };
    let (mut buffer, count) = lent.unwrap();
    assert_eq!(count, 16);
    // The product was made before the write.
    let sum: f32 = 5.0 + numbers(16)[1..4].iter().sum::<f32>();
    assert_eq!(product.unwrap().to_vec2::<f32>().unwrap()[0], [sum; 4]);
    let (tensor, view) = kept.unwrap();
    for revoked in [tensor, view] {
        revoked.matmul(&ordinary).unwrap_err();
        revoked
            .contiguous()
            .and_then(|tensor| tensor.to_vec2::<f32>())
            .unwrap_err();
        (revoked.clone() + &revoked).unwrap_err();
        unified.host(&revoked, |_: &[f32]| ()).unwrap_err();
        unified.host_mut(&revoked, |_: &mut [f32]| ()).unwrap_err();
    }
    buffer.host_mut().unwrap()[1] = 3.0;
    assert_eq!(buffer.host().unwrap()[..2], [5.0, 3.0]);
    assert_eq!(buffer.host().unwrap()[15], 7.0);
}

#[test]
fn operations_on_revoked_tensors_only_are_refused() {
    let Some(world) = world() else { return };
    let unified = world.unified();
    let mut revoked = Vec::new();
    for _ in 0..2 {
        let buffer = UnifiedBuffer::<f32>::zeroed(unified.ours(), 64 * 64).unwrap();
        let keep = |tensor: &candle_core::Tensor| {
            revoked.push(tensor.clone());
            Ok(())
        };
        // SAFETY: the work moves nothing out of the storage.
        unsafe { unified.lend(buffer, (64, 64), keep) }.unwrap();
    }
    let (one, two) = (&revoked[0], &revoked[1]);
    // Candle checks the shapes of the tensors, and not the length of their storage.
    one.slice_set(two, 0, 0).unwrap_err();
    one.add(two).unwrap_err();
    one.copy().unwrap_err();
    candle_core::Tensor::cat(&[one, two], 0).unwrap_err();
}

#[test]
fn a_panic_and_an_error_revoke_the_tensor() {
    let Some(world) = world() else { return };
    let unified = world.unified();
    let mut kept = None;
    let buffer = UnifiedBuffer::<f32>::zeroed(unified.ours(), 4).unwrap();
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the work moves nothing out of the storage.
        let lent = unsafe {
            unified.lend(buffer, 4, |tensor| -> candle_core::Result<()> {
                kept = Some(tensor.clone());
                panic!("on purpose")
            })
        };
        lent.map(drop)
    }));
    assert!(panicked.is_err());
    kept.unwrap().to_vec1::<f32>().unwrap_err();
    let buffer = UnifiedBuffer::<f32>::zeroed(unified.ours(), 4).unwrap();
    // SAFETY: as above.
    let error = unsafe { unified.lend(buffer, 4, |tensor| tensor.reshape(5)) }.unwrap_err();
    assert!(matches!(error, Error::Candle(_)), "{error}");
}

#[test]
fn memory_that_was_swapped_is_leaked() {
    use candle_core::{CpuStorage, CudaStorage, InplaceOp1, Layout};
    struct Swap;
    impl InplaceOp1 for Swap {
        fn name(&self) -> &'static str {
            "swap"
        }
        fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
            Ok(())
        }
        fn cuda_fwd(&self, storage: &mut CudaStorage, _: &Layout) -> candle_core::Result<()> {
            let own = storage.device.alloc_zeros::<f32>(4)?;
            let lent = std::mem::replace(storage.as_cuda_slice_mut()?, own);
            std::mem::forget(lent);
            Ok(())
        }
    }
    let Some(mut world) = world() else { return };
    world.leaks = true;
    let unified = world.unified();
    let buffer = UnifiedBuffer::<f32>::zeroed(unified.ours(), 4).unwrap();
    // SAFETY: the operation forgets the slice, so nothing frees the memory.
    let error = unsafe { unified.lend(buffer, 4, |tensor| tensor.inplace_op1(&Swap)) }.unwrap_err();
    assert!(matches!(error, Error::Swapped { bytes: 16 }), "{error}");
}
