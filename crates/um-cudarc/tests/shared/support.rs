//! A context of both libraries, and the simulator's report at the end of each test.

use std::cell::OnceCell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cuda_um::{Runtime, UnifiedBuffer};
use cuda_um_sim_lib as _;
use cuda_um_testkit::{on_gpu, open_sim_libraries};
use cudarc::driver::sys;
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, result};
use cudarc::nvrtc::Ptx;
use um_cudarc::{SharedDevice, SharedStream, UnifiedSlice};

pub const LEN: usize = 10_000;

/// One test at a time: the simulator's report is that of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Both libraries on device 0. Its drop checks that nothing is left and nothing was misused.
pub struct World {
    pub runtime: Option<Runtime>,
    pub shared: Option<SharedDevice>,
    pub context: Option<Arc<CudaContext>>,
    scale: OnceCell<CudaFunction>,
    before: [usize; 2],
    /// The test leaks on purpose.
    pub leaks: usize,
    _alone: MutexGuard<'static, ()>,
}

/// The world, or none if the machine has no managed memory that both can use: the test then checks nothing.
pub fn world() -> Option<World> {
    let world = any_world();
    let capabilities = world.shared().device().capabilities();
    let can = capabilities.concurrent_managed_access && capabilities.compute_capability >= (6, 0);
    if !can {
        eprintln!("skipped: device 0 has no concurrent managed access, or cannot run the kernel");
    }
    can.then_some(world)
}

pub fn any_world() -> World {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if std::env::var_os("CUDA_UM_SIM_DEVICES").is_none() {
        // SAFETY: one test at a time, and the first one is before the first call of CUDA: no other thread reads the environment.
        unsafe { std::env::set_var("CUDA_UM_SIM_DEVICES", "2") };
    }
    open_sim_libraries();
    let before = [report("cudaUmSimLeaks").0, report("cudaUmSimMisuse").0];
    let context = CudaContext::new(0).unwrap();
    let runtime = Runtime::open().unwrap();
    let shared = SharedDevice::new(&context, &runtime).unwrap();
    World {
        runtime: Some(runtime),
        shared: Some(shared),
        context: Some(context),
        scale: OnceCell::new(),
        before,
        leaks: 0,
        _alone: alone,
    }
}

impl World {
    pub fn shared(&self) -> &SharedDevice {
        self.shared.as_ref().unwrap()
    }

    pub fn context(&self) -> &Arc<CudaContext> {
        self.context.as_ref().unwrap()
    }

    pub fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().unwrap()
    }

    pub fn stream(&self) -> SharedStream {
        self.shared()
            .adopt(&self.context().default_stream())
            .unwrap()
    }

    pub fn buffer(&self, value: f32) -> UnifiedBuffer<f32> {
        UnifiedBuffer::from_slice(self.shared().device(), &[value; LEN]).unwrap()
    }

    pub fn slice(&self, stream: &SharedStream, value: f32) -> UnifiedSlice<f32> {
        stream.share(self.buffer(value)).unwrap()
    }

    /// The kernel. Its module stays loaded until the end of the test: cudarc unloads a module without a wait for its kernels.
    pub fn scale(&self) -> &CudaFunction {
        self.scale.get_or_init(|| {
            let ptx = include_str!("../../../../kernels/ptx/scale.ptx");
            let module = self.context().load_module(Ptx::from_src(ptx)).unwrap();
            module.load_function("scale_f32").unwrap()
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.context().synchronize().unwrap();
        self.scale.take();
        self.shared = None;
        self.context = None;
        drop(self.runtime.take());
        let start = Instant::now();
        while report("cudaUmSimLeaks").0 > self.before[0].saturating_add(self.leaks) {
            let left = report("cudaUmSimLeaks").1;
            assert!(start.elapsed() < Duration::from_secs(10), "left:\n{left}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (count, misuse) = report("cudaUmSimMisuse");
        assert_eq!(count, self.before[1], "{misuse}");
    }
}

/// A list of the simulator: its length and its text.
fn report(function: &str) -> (usize, String) {
    if on_gpu() {
        return (0, String::new());
    }
    // SAFETY: the library of the simulator, in which the function has this signature.
    let (count, text) = unsafe {
        let function = sys::culib()
            .get::<unsafe extern "C" fn(*mut c_char, usize) -> usize>(function.as_bytes())
            .unwrap();
        let mut text = [0; 4000];
        (function(text.as_mut_ptr(), text.len()), text)
    };
    // SAFETY: the function ends the text with a NUL.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    (count, text.to_string_lossy().into_owned())
}

/// Launches `output = input × factor` through cudarc, with the arguments of any of its types.
macro_rules! scale {
    ($stream:expr, $function:expr, $input:expr, $output:expr, $factor:expr) => {
        // Temporary arguments live until the end of the `match`.
        match ($stream.launch_builder($function), $input, $output) {
            (mut launch, input, output) => {
                let (factor, len): (f32, u64) = ($factor, $crate::support::LEN as u64);
                launch.arg(input).arg(output).arg(&factor).arg(&len);
                // SAFETY: the kernel's parameters; both arrays have `LEN` elements.
                unsafe { launch.launch($crate::support::config()) }.unwrap();
            }
        }
    };
}
pub(crate) use scale;

pub fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(LEN as u32)
}

/// Holds a stream of cudarc for a while.
pub fn delay(stream: &CudaStream) {
    unsafe extern "C" fn sleep(_: *mut c_void) {
        std::thread::sleep(Duration::from_millis(30));
    }
    // SAFETY: the function ignores its argument.
    unsafe {
        result::stream::launch_host_function(stream.cu_stream(), sleep, std::ptr::null_mut())
    }
    .unwrap();
}
