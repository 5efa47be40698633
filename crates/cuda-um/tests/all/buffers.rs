//! Uninitialised and registered memory, and host guards: the work for which they wait, and the error "busy".

use cuda_um::{
    DeviceBuffer, Error, HostMut, HostRef, RegisteredBuffer, UnifiedBuffer, View, ViewMut,
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, device, fails, simulated};
use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

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

/// What must compile: a borrow may become shorter. `compile_fail/variance` has what must not.
type Borrows<'a> = (
    View<'a, u8>,
    ViewMut<'a, u8>,
    HostRef<'a, u8>,
    HostMut<'a, u8>,
);
const _: for<'long, 'short> fn(&'short &'long (), Borrows<'long>) -> Borrows<'short> =
    |_, borrows| borrows;

/// claim 1
#[test]
fn busy_names_the_buffer_and_nothing_else_waits() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let [mut written, mut read, mut target] =
        [(); 3].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap());
    let idle = UnifiedBuffer::from_slice(&device, &[3u32; 100]).unwrap();
    drop(read.host_mut().unwrap());

    let paused = sim.pause();
    add.run(&stream, &mut written, 100, 2);
    stream.copy(&read, &mut target).unwrap();
    let of = format!("buffer {} (UnifiedBuffer<u32>[100] of ", written.id());
    fails!(written.try_host(), Error::Busy { .. }, &of);
    fails!(written.try_host_mut(), Error::Busy { .. });
    assert_eq!(idle.host().unwrap()[0], 3, "no wait without work");
    assert_eq!(read.try_host().unwrap()[0], 0, "both only read");
    fails!(read.try_host_mut(), Error::Busy { .. });
    drop(paused);

    assert_eq!(written.host().unwrap()[99], 2);
    read.host_mut().unwrap()[0] = 1;
}

/// claim 16: Without concurrent access, the gate stays open for work.
#[test]
fn awaiting_works_on_any_executor_and_can_be_given_up() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
        device.synchronize().unwrap();
        let paused = sim.pause();
        buffer.fill_on(6, &stream).unwrap();
        {
            let mut future = Box::pin(buffer.host_async());
            let mut context = Context::from_waker(Waker::noop());
            assert!(future.as_mut().poll(&mut context).is_pending());
            // If its helper thread exists, it is waiting by now.
            std::thread::sleep(Duration::from_millis(20));
        }
        buffer.fill_on(7, &stream).unwrap();
        let resume = std::thread::spawn(move || drop(paused));
        assert_eq!(pollster::block_on(buffer.host_async()).unwrap()[0], 7);
        resume.join().unwrap();
        futures_executor::block_on(async {
            buffer.host_mut_async().await.unwrap()[0] = 1;
            assert_eq!(buffer.host_async().await.unwrap()[0], 1);
        });
        Add::load(&device).run(&stream, &mut buffer, 100, 1);
        let guard = futures_executor::block_on(buffer.host_mut_async());
        assert_eq!(guard.unwrap()[..2], [2, 8]);
    }
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
