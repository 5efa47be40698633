//! Uninitialised and registered memory.

use cuda_um::{DeviceBuffer, RegisteredBuffer, UnifiedBuffer};
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

#[test]
fn a_clone_has_the_elements_and_the_name_and_is_another_buffer() {
    let (_sim, device, stream) = device();
    let mut buffer = UnifiedBuffer::from_slice(&device, &[7u32; 300]).unwrap();
    buffer.set_name("weights");
    let add = Add::load(&device);
    add.run(&stream, &mut buffer, 300, 2);
    let mut clone = buffer.try_clone().unwrap();
    add.run(&stream, &mut clone, 300, 1);
    assert_eq!((clone.name(), clone.len()), (Some("weights"), 300));
    assert_eq!(*buffer.host().unwrap(), [9; 300]);
    assert_eq!(*clone.host().unwrap(), [10; 300]);
    let empty = DeviceBuffer::<u32>::zeroed(&device, 0).unwrap();
    assert!(empty.try_clone().unwrap().is_empty());
}

#[test]
fn a_buffer_is_a_text_with_its_name_type_kind_and_first_elements() {
    let (_sim, device, stream) = device();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 9).unwrap();
    Add::load(&device).run(&stream, &mut buffer, 8, 5);
    let text = "DeviceBuffer<u32>[9] in device memory: [5, 5, 5, 5, 5, 5, 5, 5, ..]";
    assert_eq!(buffer.to_string(), text);
    buffer.set_name("scores");
    assert_eq!(buffer.to_string(), format!("`scores`, {text}"));
    let debug = format!("{buffer:?}");
    let start = format!(
        "DeviceBuffer<u32>[9] {{ id: {}, name: Some(\"scores\"), ",
        buffer.id()
    );
    assert!(debug.starts_with(&start), "{debug}");
    let pair = UnifiedBuffer::from_slice(&device, &[1.5f32, 2.0]).unwrap();
    let end = "UnifiedBuffer<f32>[2] in managed memory: [1.5, 2.0]";
    assert_eq!(pair.to_string(), end);
}
