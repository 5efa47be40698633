//! Every kind of buffer: contents, copies, fills, registered memory.

use crate::views::each_kind;
use bytemuck::{Pod, Zeroable};
use cuda_um::{Device, DeviceCopy, RegisteredBuffer, Stream, UnifiedBuffer};
use cuda_um_testkit::{Add, device};
use std::fmt::Debug;

#[test]
fn fill_takes_elements_of_any_size() {
    let (_sim, device, stream) = device();
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    #[repr(C)]
    struct Packed {
        mass: f64,
        position: [f32; 3],
        charge: [i16; 6],
    }
    fn fills<T: DeviceCopy + PartialEq + Debug>(device: &Device, stream: &Stream, value: T) {
        for len in [0, 1, 5, 4099] {
            each_kind!(device, &vec![T::zeroed(); len], |mut buffer| {
                buffer.fill_on(value, stream).unwrap();
                assert_eq!(buffer.to_vec().unwrap(), vec![value; len]);
                buffer.fill(T::zeroed()).unwrap();
                assert_eq!(buffer.to_vec().unwrap(), vec![T::zeroed(); len]);
            });
        }
    }
    fills(&device, &stream, 0xA7u8);
    fills(&device, &stream, 0x1234u16);
    fills(&device, &stream, -1.5f32);
    fills(&device, &stream, 0x0123_4567_89AB_CDEFu64);
    fills(&device, &stream, [1u8, 2, 3]);
    fills(&device, &stream, [7u16, 8, 9]);
    let packed = Packed {
        mass: 1e300,
        position: [1.0, -2.0, 3.5],
        charge: [1, -2, 3, -4, 5, -6],
    };
    fills(&device, &stream, packed);
}

#[test]
fn uninitialised_memory_becomes_a_buffer_once_a_kernel_wrote_it() {
    let (_sim, device, stream) = device();
    let mut buffer = UnifiedBuffer::<u32>::uninit(&device, 100).unwrap();
    let add = Add::load(&device);
    add.launch(&stream, 100, (&mut buffer, 100u32, 0u32))
        .unwrap();
    let zeros = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    // SAFETY: the copy writes every element.
    #[allow(unsafe_code, reason = "the contract under test")]
    let buffer = unsafe {
        let mut buffer = buffer.assume_init();
        stream.copy(&zeros, &mut buffer).unwrap();
        buffer
    };
    assert_eq!(*buffer.host().unwrap(), [0; 100]);
}

#[test]
fn a_vector_is_registered_used_in_place_and_given_back() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut registered = RegisteredBuffer::from_vec(&device, vec![1u32; 3000]).unwrap();
    let address = registered.as_ptr();
    assert!(registered.device_ptr().is_some());
    add.launch(&stream, 3000, (&mut registered, 3000u32, 4u32))
        .unwrap();
    assert_eq!(registered.host().unwrap()[2999], 5);
    add.launch(&stream, 3000, (&mut registered, 3000u32, 1u32))
        .unwrap();
    let vector = registered.into_vec().unwrap();
    assert_eq!((vector.as_ptr(), &vector[..]), (address, &[6; 3000][..]));
    assert_eq!(
        RegisteredBuffer::from_vec(&device, Vec::<u8>::new())
            .unwrap()
            .into_vec()
            .unwrap(),
        [0u8; 0]
    );
}

#[test]
fn a_borrowed_slice_is_registered_for_a_scope() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut memory = vec![10u32; 5000];
    let seen = RegisteredBuffer::scope(&device, &mut memory[100..], |registered| {
        add.launch(&stream, 4900, (&mut *registered, 4900u32, 2u32))
            .unwrap();
        add.launch(&stream, 4900, (&mut *registered, 4900u32, 3u32))
            .unwrap();
        registered.len()
    })
    .unwrap();
    assert_eq!(seen, 4900);
    assert!(
        memory[..100].iter().all(|value| *value == 10)
            && memory[100..].iter().all(|value| *value == 15)
    );
}
