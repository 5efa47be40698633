//! Buffers whose memory was exchanged through `as_cuda_um_mut`.

use std::mem::swap;

use um_backend::{Advice, Buffer, CudaBuffer, HintOutcome, Location, PinnedBuffer, UnifiedBuffer};

use crate::support::{Machine, on_each, on_each_preset};

/// Exchanges the memory of two buffers of one kind.
fn exchange(one: &mut dyn Buffer<f32>, other: &mut dyn Buffer<f32>) {
    let (one, other) = (one.as_any_mut(), other.as_any_mut());
    macro_rules! of_kind {
        ($kind:ident) => {
            if let Some(one) = one.downcast_mut::<$kind<f32>>() {
                let other = other.downcast_mut::<$kind<f32>>().expect("one kind");
                return swap(one.as_cuda_um_mut(), other.as_cuda_um_mut());
            }
        };
    }
    of_kind!(CudaBuffer);
    of_kind!(UnifiedBuffer);
    of_kind!(PinnedBuffer);
    panic!("not of CUDA");
}

/// Checks that every call of the trait works on the new memory.
fn works(buffer: &mut dyn Buffer<f32>, len: usize, value: f32) {
    assert_eq!((buffer.len(), buffer.capacity()), (len, len));
    assert_eq!(buffer.to_vec().unwrap(), vec![value; len]);
    buffer.fill(2.5).unwrap();
    buffer.copy_from_host_at(len - 1, &[3.5]).unwrap();
    buffer.copy_from_host_at(len, &[3.5]).unwrap_err();
    let mut ends = [0.0; 2];
    buffer.copy_to_host_at(0, &mut ends[..1]).unwrap();
    buffer.copy_to_host_at(len - 1, &mut ends[1..]).unwrap();
    assert_eq!(ends, [2.5, 3.5]);
    let mut other = buffer.clone_empty(len).unwrap();
    assert_eq!(other.device().to_string(), buffer.device().to_string());
    other.copy_from_buffer(buffer).unwrap();
    assert_eq!(other.to_vec().unwrap()[len - 1], 3.5);
    buffer.copy_from_buffer(&*other).unwrap();
}

/// Two of each kind.
fn pairs(one: &Machine, other: &Machine) -> Vec<[Box<dyn Buffer<f32>>; 2]> {
    let (one, other) = (one.backend(), other.backend());
    let dtype = um_backend::DType::F32;
    vec![
        [
            Box::new(one.allocate_unified(8).unwrap()),
            Box::new(other.allocate_unified(100).unwrap()),
        ],
        [
            Box::new(one.create_buffer(8, dtype).unwrap()),
            Box::new(other.create_buffer(100, dtype).unwrap()),
        ],
        [
            Box::new(one.create_pinned(8).unwrap()),
            Box::new(other.create_pinned(100).unwrap()),
        ],
    ]
}

fn each_works(pairs: Vec<[Box<dyn Buffer<f32>>; 2]>) {
    for [mut short, mut long] in pairs {
        short.fill(1.0).unwrap();
        long.fill(7.0).unwrap();
        exchange(&mut *short, &mut *long);
        works(&mut *short, 100, 7.0);
        works(&mut *long, 8, 1.0);
    }
}

#[test]
fn the_length_is_that_of_the_memory() {
    on_each(|machine| each_works(pairs(machine, machine)));
}

#[test]
fn memory_of_another_runtime_works() {
    on_each_preset(
        |builder| builder,
        |machine| {
            crate::support::on_preset(
                um_backend::sim::Gpu::H200,
                |builder| builder,
                |elsewhere| each_works(pairs(machine, elsewhere)),
            );
        },
    );
}

#[test]
fn prefetch_and_advice_go_to_the_memory_that_is_there() {
    on_each_preset(
        |builder| builder.devices(2),
        |machine| {
            let backends = machine.backends();
            let [first, second] = &backends[..] else {
                panic!("two devices")
            };
            let mut here: UnifiedBuffer<f32> = first.allocate_unified(8).unwrap();
            let mut there = second.allocate_unified(100).unwrap();
            exchange(&mut here, &mut there);
            assert_eq!(here.placement(), there.placement());
            let own = here.prefetch_to_device(None).unwrap();
            assert_eq!(own.is_applied(), machine.is_concurrent(), "{own}");
            here.prefetch_to_device(Some(2)).unwrap_err();
            if own == HintOutcome::Applied {
                second.synchronize().unwrap();
                first.synchronize().unwrap();
                let attributes = here.as_cuda_um().range_attributes().unwrap();
                assert_eq!(attributes.last_prefetch, Some(Location::Device(1)));
            }
            let advice = here.advise(Advice::SetPreferredLocation(Location::Device(1)));
            assert_eq!(advice.unwrap().is_applied(), own.is_applied());
        },
    );
}

#[test]
fn a_device_buffer_lends_its_memory_too() {
    on_each(|machine| {
        let device = machine.backend().device().clone();
        let new = |len| CudaBuffer::<f32>::zeroed(device.clone(), len);
        let (mut short, mut long) = (new(8).unwrap(), new(100).unwrap());
        swap(short.as_cuda_um_mut(), long.as_cuda_um_mut());
        works(&mut short, 100, 0.0);
        works(&mut long, 8, 0.0);
    });
}
