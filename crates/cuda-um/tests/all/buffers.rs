//! Uninitialised and registered memory.

use cuda_um::{RegisteredBuffer, UnifiedBuffer};
use cuda_um_testkit::{Add, device};

/// claim 4
#[test]
fn uninitialised_memory_becomes_a_buffer_once_work_wrote_it() {
    let (_sim, device, stream) = device();
    let mut buffer = UnifiedBuffer::<u32>::uninit(&device, 100).unwrap();
    Add::load(&device).run(&stream, &mut buffer, 100, 0);
    // SAFETY: the copy writes every element.
    #[allow(unsafe_code, reason = "the contract under test")]
    let mut buffer = unsafe { buffer.assume_init() };
    let zeros = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    stream.copy(&zeros, &mut buffer).unwrap();
    assert_eq!(*buffer.host().unwrap(), [0; 100]);
}

#[test]
fn a_vector_is_registered_used_in_place_and_given_back() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut registered = RegisteredBuffer::from_vec(&device, vec![1u32; 3000]).unwrap();
    let address = registered.as_ptr();
    assert!(registered.device_ptr().is_some());
    add.run(&stream, &mut registered, 3000, 4);
    assert_eq!(registered.host().unwrap()[2999], 5);
    add.run(&stream, &mut registered, 3000, 1);
    let vector = registered.into_vec().unwrap();
    assert_eq!((vector.as_ptr(), &vector[..]), (address, &[6; 3000][..]));
    let empty = RegisteredBuffer::from_vec(&device, Vec::<u8>::new()).unwrap();
    assert!(empty.into_vec().unwrap().is_empty());
}
