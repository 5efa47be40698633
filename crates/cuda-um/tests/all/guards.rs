//! Host guards: the work for which they wait, and the error "busy".

use cuda_um::{Error, HostMut, HostRef, UnifiedBuffer, View, ViewMut};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, device, simulated};

/// What must compile: a borrow may become shorter. `compile_fail/variance` has what must not.
#[test]
fn borrows_may_become_shorter() {
    fn view<'short, 'long: 'short>(view: View<'long, u8>) -> View<'short, u8> {
        view
    }
    fn view_mut<'short, 'long: 'short>(view: ViewMut<'long, u8>) -> ViewMut<'short, u8> {
        view
    }
    fn host_ref<'short, 'long: 'short>(guard: HostRef<'long, u8>) -> HostRef<'short, u8> {
        guard
    }
    fn host_mut<'short, 'long: 'short>(guard: HostMut<'long, u8>) -> HostMut<'short, u8> {
        guard
    }
    let (_sim, device, _stream) = device();
    let mut buffer = UnifiedBuffer::<u8>::zeroed(&device, 4).unwrap();
    assert_eq!(view(buffer.as_view()).len(), 4);
    assert_eq!(view_mut(buffer.as_view_mut()).len(), 4);
    assert_eq!(*host_ref(buffer.host().unwrap()), [0; 4]);
    assert_eq!(*host_mut(buffer.host_mut().unwrap()), [0; 4]);
}

#[test]
fn busy_names_the_buffer_and_nothing_else_waits() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut written = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut read = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let idle = UnifiedBuffer::from_slice(&device, &[3u32; 100]).unwrap();
    drop(read.host_mut().unwrap());

    let paused = sim.pause();
    add.launch(&stream, 100, (&mut written, 100u32, 2u32))
        .unwrap();
    stream
        .copy(
            &read,
            &mut UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap(),
        )
        .unwrap();
    let error = written.try_host().unwrap_err();
    assert!(
        matches!(&error, Error::Busy { what, .. }
            if what.starts_with(&format!("buffer {} (UnifiedBuffer<u32>[100] of ", written.id()))),
        "{error}"
    );
    assert!(matches!(written.try_host_mut(), Err(Error::Busy { .. })));
    assert_eq!(
        idle.host().unwrap()[0],
        3,
        "a buffer without work is not waited for"
    );
    assert_eq!(
        read.try_host().unwrap()[0],
        0,
        "the host may read beside a kernel that reads"
    );
    assert!(
        matches!(read.try_host_mut(), Err(Error::Busy { .. })),
        "and may not write"
    );
    drop(paused);

    assert_eq!(written.host().unwrap()[99], 2);
    read.host_mut().unwrap()[0] = 1;
}

#[test]
fn awaiting_works_on_any_executor_and_can_be_given_up() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let paused = sim.pause();
    add.launch(&stream, 100, (&mut buffer, 100u32, 7u32))
        .unwrap();

    // Polled once and dropped: nothing stays locked.
    {
        let mut future = Box::pin(buffer.host_async());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    let resume = std::thread::spawn(move || drop(paused));
    assert_eq!(pollster::block_on(buffer.host_async()).unwrap()[0], 7);
    resume.join().unwrap();
    futures_executor::block_on(async {
        buffer.host_mut_async().await.unwrap()[0] = 1;
        assert_eq!(buffer.host_async().await.unwrap()[0], 1);
    });
    add.launch(&stream, 100, (&mut buffer, 100u32, 1u32))
        .unwrap();
    assert_eq!(
        futures_executor::block_on(buffer.host_mut_async()).unwrap()[..2],
        [2, 8]
    );
}
