//! A backend is opened on any executor, or without one.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use um_backend::{
    Buffer, CudaBackend, CudaBackendConfig, CudaDevice, CudaError, DType, RuntimeChoice,
    UnifiedBuffer,
};

use super::contents;
use crate::support::executor::run_on_a_thread;
use crate::support::on_each;

#[test]
fn open() {
    on_each(|machine| {
        let backend = pollster::block_on(CudaBackend::initialize(machine.config())).unwrap();
        let second = run_on_a_thread(CudaBackend::initialize(machine.config())).unwrap();
        let blocking = CudaBackend::initialize_blocking(machine.config()).unwrap();
        for backend in [backend, second, blocking] {
            let backend = machine.keep(backend);
            assert_eq!(backend.device().ordinal(), 0);
            assert_eq!(backend.is_simulated(), machine.sim.is_some());
            assert_eq!(backend.simulator().is_some(), machine.sim.is_some());
            let line = backend.runtime_description();
            assert!(line.contains(backend.device().name()), "{line}");
            assert_eq!(line.contains("simulator"), backend.is_simulated(), "{line}");
            assert_eq!(line.lines().count(), 1, "{line}");
            let buffer = backend.allocate_unified::<f32>(3).unwrap();
            assert_eq!(contents(&buffer), [0.0; 3]);
        }
        let count = machine.backends().len();
        match CudaBackend::initialize_blocking(machine.config().device(count)) {
            Err(CudaError::NoSuchDevice {
                ordinal,
                count: found,
            }) => {
                assert_eq!((ordinal, found), (count, count));
            }
            other => panic!("{other:?}"),
        }
    });
}

/// A panic of the waker must not abort the process.
#[test]
fn open_with_a_waker_that_panics() {
    struct Panics(mpsc::Sender<()>);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
            panic!("a waker, on purpose");
        }
    }
    on_each(|machine| {
        let (called, calls) = mpsc::channel();
        let waker = Waker::from(Arc::new(Panics(called)));
        let mut opened = pin!(CudaBackend::initialize(machine.config()));
        let mut poll = || opened.as_mut().poll(&mut Context::from_waker(&waker));
        let backend = loop {
            match poll() {
                Poll::Ready(backend) => break backend.unwrap(),
                Poll::Pending => calls.recv().unwrap(),
            }
        };
        assert_eq!(machine.keep(backend).device().ordinal(), 0);
    });
}

/// By default, `CudaBackend` and `CudaDevice::new` open the same runtime.
#[test]
fn open_by_default() {
    let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap();
    let device = Arc::new(CudaDevice::new(0).unwrap());
    assert_eq!(device.name(), backend.device().name());
    let mut one = UnifiedBuffer::<f32>::new(device, 5, DType::F32).unwrap();
    let mut other = backend.create_buffer::<f32>(5, DType::F32).unwrap();
    other.fill(2.5).unwrap();
    one.copy_from_buffer(&other).unwrap();
    assert_eq!(contents(&one), [2.5; 5]);
}

/// The error without a GPU is one line. The simulator always opens.
#[test]
fn open_what_is_asked_for() {
    let open =
        |choice| CudaBackend::initialize_blocking(CudaBackendConfig::default().runtime(choice));
    assert!(open(RuntimeChoice::Sim).unwrap().is_simulated());
    match open(RuntimeChoice::Cuda) {
        Ok(backend) => {
            assert!(!backend.is_simulated());
            assert!(!open(RuntimeChoice::Auto).unwrap().is_simulated());
        }
        Err(error) if error.kind() == um_backend::cuda_um::ErrorKind::NoGpu => {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
            let auto = open(RuntimeChoice::Auto).unwrap();
            assert!(auto.is_simulated());
            let line = auto.runtime_description();
            assert!(line.contains('('), "no reason: {line}");
        }
        Err(other) => panic!("{other:?}"),
    }
}
