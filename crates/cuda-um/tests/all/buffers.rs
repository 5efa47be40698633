//! Every kind of buffer: contents, copies, fills, registered memory.

use bytemuck::{Pod, Zeroable};
use cuda_um::{
    DeviceBuffer, DeviceCopy, PinnedBuffer, RegisteredBuffer, Stream, UnifiedBuffer, UnifiedOptions,
};
use cuda_um_testkit::{Add, device};

const LENGTHS: [usize; 6] = [0, 1, 3, 255, 4097, 100_000];

/// Runs the body for a unified, a device and a pinned buffer.
macro_rules! each_kind {
    ($kind:ident => $body:block) => {{
        type Unified<T> = UnifiedBuffer<T>;
        type Device<T> = DeviceBuffer<T>;
        type Pinned<T> = PinnedBuffer<T>;
        each_kind!(@ $kind Unified $body);
        each_kind!(@ $kind Device $body);
        each_kind!(@ $kind Pinned $body);
    }};
    (@ $kind:ident $type:ident $body:block) => {{
        type $kind<T> = $type<T>;
        $body
    }};
}

#[test]
fn new_buffers_hold_zeros_or_the_slice() {
    let (_sim, device, _) = device();
    for len in LENGTHS {
        let numbers: Vec<u32> = (0..len as u32).map(|i| i * 3 + 1).collect();
        each_kind!(Kind => {
            let zeroed = Kind::<u32>::zeroed(&device, len).unwrap();
            let mut found = vec![7; len];
            zeroed.copy_to_host(&mut found).unwrap();
            assert_eq!(found, vec![0; len]);
            assert_eq!((zeroed.len(), zeroed.size_bytes(), zeroed.is_empty()), (len, len * 4, len == 0));
            assert_eq!(zeroed.device().ordinal(), device.ordinal());

            let copied = Kind::from_slice(&device, &numbers).unwrap();
            copied.copy_to_host(&mut found).unwrap();
            assert_eq!(found, numbers);
            assert_ne!(copied.id(), zeroed.id());
            copied.close().unwrap();
        });
    }
}

fn fills<T: DeviceCopy + PartialEq + std::fmt::Debug>(
    device: &cuda_um::Device,
    stream: &Stream,
    value: T,
) {
    for len in [0, 1, 5, 1000, 4099] {
        each_kind!(Kind => {
            let mut buffer = Kind::<T>::zeroed(device, len).unwrap();
            buffer.fill_on(value, stream).unwrap();
            let mut found = vec![T::zeroed(); len];
            buffer.copy_to_host(&mut found).unwrap();
            assert!(found.iter().all(|found| *found == value), "{len} of {value:?}: {found:?}");
            buffer.fill(T::zeroed()).unwrap();
            buffer.copy_to_host(&mut found).unwrap();
            assert!(found.iter().all(|found| *found == T::zeroed()), "{len} zeros after {value:?}");
        });
    }
}

#[test]
fn fill_takes_elements_of_any_size() {
    let (_sim, device, stream) = device();
    fills(&device, &stream, 0xA7u8);
    fills(&device, &stream, 0x1234u16);
    fills(&device, &stream, -1.5f32);
    fills(&device, &stream, 0x0123_4567_89AB_CDEFu64);
    fills(&device, &stream, [1u8, 2, 3]);
    fills(&device, &stream, [7u16, 8, 9]);
    fills(&device, &stream, [9u8, 8]);
}

#[test]
fn fill_takes_structs() {
    let (_sim, device, stream) = device();
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    #[repr(C)]
    struct Packed {
        mass: f64,
        position: [f32; 3],
        charge: [i16; 6],
    }
    fills(
        &device,
        &stream,
        Packed {
            mass: 1e300,
            position: [1.0, -2.0, 3.5],
            charge: [1, -2, 3, -4, 5, -6],
        },
    );
}

#[test]
fn uninitialised_memory_becomes_a_buffer_once_a_kernel_wrote_it() {
    let (_sim, device, stream) = device();
    let mut buffer = UnifiedBuffer::<u32>::uninit(&device, 100, UnifiedOptions::default()).unwrap();
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
