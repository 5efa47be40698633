//! A device of both libraries, and the simulator's report at the end of each test.

use candle_core::{Device, Tensor};
use cuda_um::Runtime;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use um_candle::UnifiedDevice;

/// One test at a time: the simulator's report is that of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Device 0 of both libraries. Its drop checks that nothing is left and nothing was misused.
pub struct World {
    pub runtime: Option<Runtime>,
    pub candle: Option<Device>,
    pub unified: Option<UnifiedDevice>,
    /// The test leaks on purpose.
    pub leaks: bool,
    before: [usize; 2],
    _alone: MutexGuard<'static, ()>,
}

/// The world, or none if the device has no concurrent managed access: the reason is then a typed error.
pub fn world() -> Option<World> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = [report(LEAKS).0, report(MISUSE).0];
    let candle = Device::new_cuda_with_stream(0).unwrap();
    let runtime = Runtime::open().unwrap();
    let unified = match UnifiedDevice::new(&candle, &runtime) {
        Ok(unified) => unified,
        Err(error) => {
            assert!(
                error.to_string().contains("concurrent managed access"),
                "{error}"
            );
            eprintln!("skipped: {error}");
            return None;
        }
    };
    Some(World {
        runtime: Some(runtime),
        candle: Some(candle),
        unified: Some(unified),
        leaks: false,
        before,
        _alone: alone,
    })
}

impl World {
    pub fn unified(&self) -> &UnifiedDevice {
        self.unified.as_ref().unwrap()
    }

    pub fn candle(&self) -> &Device {
        self.candle.as_ref().unwrap()
    }

    /// The device, if it has a managed pool; before CUDA 13.0 there is only a typed reason.
    pub fn owning(&self) -> Option<&UnifiedDevice> {
        match self.unified().pool() {
            Ok(_) => self.unified.as_ref(),
            Err(error) => {
                assert!(error.to_string().contains("CUDA 13.0"), "{error}");
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    /// An ordinary tensor of candle.
    pub fn ordinary(&self, elements: &[f32], shape: (usize, usize)) -> Tensor {
        Tensor::from_slice(elements, shape, self.candle()).unwrap()
    }

    /// Holds candle's stream for a while.
    pub fn delay(&self) {
        unsafe extern "C" fn sleep(_: *mut c_void) {
            std::thread::sleep(Duration::from_millis(30));
        }
        let stream = self.unified().candle().cuda_stream();
        let launch = candle_core::cuda::cudarc::driver::result::stream::launch_host_function;
        // SAFETY: the function ignores its argument.
        unsafe { launch(stream.cu_stream(), sleep, std::ptr::null_mut()) }.unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.candle().synchronize().unwrap();
        self.unified = None;
        self.candle = None;
        drop(self.runtime.take());
        let start = Instant::now();
        while !self.leaks && report(LEAKS).0 > self.before[0] {
            let left = report(LEAKS).1;
            assert!(start.elapsed() < Duration::from_secs(10), "left:\n{left}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (count, misuse) = report(MISUSE);
        assert_eq!(count, self.before[1], "{misuse}");
    }
}

const LEAKS: &CStr = c"cudaUmSimLeaks";
const MISUSE: &CStr = c"cudaUmSimMisuse";

/// A list of the simulator: its length and its text. A GPU has none.
fn report(function: &CStr) -> (usize, String) {
    // SAFETY: looks for a function among the loaded libraries.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, function.as_ptr()) };
    if found.is_null() {
        return (0, String::new());
    }
    let mut text = [0; 4000];
    // SAFETY: the simulator's function has this signature, and ends the text with a NUL.
    let (count, text) = unsafe {
        let report: extern "C" fn(*mut c_char, usize) -> usize = std::mem::transmute(found);
        let count = report(text.as_mut_ptr(), text.len());
        (count, CStr::from_ptr(text.as_ptr()))
    };
    (count, text.to_string_lossy().into_owned())
}

/// True over the simulator.
pub fn simulated() -> bool {
    // SAFETY: as above.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, LEAKS.as_ptr()) };
    !found.is_null()
}

pub fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 17) as f32 - 8.0).collect()
}
