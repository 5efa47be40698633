//! A context of both libraries, and the simulator's report at the end of each test.

use cuda_core::{Context, DeviceBuffer, Function, LaunchConfig, Stream, launch_kernel_on_stream};
use cuda_um::{MemoryKind, Runtime, UnifiedBuffer};
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use um_cuda_core::{SharedContext, SharedStream};

pub const LEN: usize = 10_000;

/// One test at a time: the simulator's report is that of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Both libraries on device 0. Its drop checks that nothing is misused, and that the buffers are freed.
pub struct World {
    pub runtime: Runtime,
    pub context: Arc<Context>,
    pub shared: SharedContext,
    pub stream: SharedStream,
    before: usize,
    _alone: MutexGuard<'static, ()>,
}

pub fn world() -> World {
    // cuda-core keeps streams and modules for the next test, so the libraries stay open.
    static OPEN: OnceLock<(Runtime, Arc<Context>, SharedContext)> = OnceLock::new();
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (runtime, context, shared) = OPEN.get_or_init(|| {
        let (runtime, context) = (Runtime::open().unwrap(), Context::new(0).unwrap());
        let shared = SharedContext::new(&context, &runtime).unwrap();
        function(&context);
        (runtime, context, shared)
    });
    let stream = shared.adopt(&context.new_stream().unwrap()).unwrap();
    World {
        runtime: runtime.clone(),
        context: Arc::clone(context),
        before: misuse().0,
        shared: shared.clone(),
        stream,
        _alone: alone,
    }
}

impl World {
    pub fn unified(&self, value: f32) -> UnifiedBuffer<f32> {
        UnifiedBuffer::from_slice(self.shared.device(), &[value; LEN]).unwrap()
    }

    pub fn buffer(&self, value: f32) -> DeviceBuffer<f32> {
        self.stream.share(self.unified(value)).unwrap()
    }

    /// Launches `output = input × factor` as the launchers that cuda-core's macros make: with an access for each buffer, until the end.
    pub fn scale(
        &self,
        stream: &Stream,
        input: &DeviceBuffer<f32>,
        output: &mut DeviceBuffer<f32>,
        factor: f32,
    ) {
        let accesses = [(input.storage(), false), (output.storage(), true)];
        let leases =
            accesses.map(|(storage, writes)| storage.acquire(stream, writes, false).unwrap());
        self.unknown_scale(stream, input, output, factor);
        for lease in leases {
            lease.retain_until_complete(stream).unwrap();
        }
    }

    /// The same by an `unsafe` launch, which cuda-core does not know.
    pub fn unknown_scale(
        &self,
        stream: &Stream,
        input: &DeviceBuffer<f32>,
        output: &mut DeviceBuffer<f32>,
        factor: f32,
    ) {
        let (mut a, mut b) = (input.cu_deviceptr(), output.cu_deviceptr());
        let (mut factor, mut len) = (factor, LEN as u64);
        let mut parameters = [
            (&raw mut a).cast::<c_void>(),
            (&raw mut b).cast(),
            (&raw mut factor).cast(),
            (&raw mut len).cast(),
        ];
        let function = function(&self.context);
        let LaunchConfig {
            grid_dim,
            block_dim,
            ..
        } = LaunchConfig::for_num_elems(LEN as u32);
        // SAFETY: the kernel's parameters; both arrays have `LEN` elements, and the tests keep them.
        unsafe {
            launch_kernel_on_stream(function, grid_dim, block_dim, 0, stream, &mut parameters)
        }
        .unwrap();
    }
}

fn function(context: &Arc<Context>) -> &'static Function {
    static SCALE: OnceLock<Function> = OnceLock::new();
    SCALE.get_or_init(|| {
        let ptx = include_str!("../../../../kernels/ptx/scale.ptx");
        let module = context.load_module_from_ptx_src(ptx).unwrap();
        module.load_function("scale_f32").unwrap()
    })
}

/// Holds a stream for a while.
pub fn delay(stream: &Stream) {
    stream
        .launch_host_function(|| std::thread::sleep(Duration::from_millis(30)))
        .unwrap();
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.context.synchronize().unwrap();
        let start = Instant::now();
        let live = || {
            let pool = self.shared.device().pool_stats(MemoryKind::Managed);
            pool.map_or(0, |pool| pool.live_bytes)
        };
        // cuda-core drops buffers on a thread of its own.
        while live() > 0 {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{} bytes",
                live()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let (count, misuse) = misuse();
        assert_eq!(count, self.before, "{misuse}");
    }
}

/// What the simulator found: the number and the text. On a GPU there is nothing.
fn misuse() -> (usize, String) {
    type Report = unsafe extern "C" fn(*mut c_char, usize) -> usize;
    let mut text = [0; 4000];
    // SAFETY: libcuda is open for the whole process. The function has this signature in the library of the simulator, and no other has it.
    let count = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        let found = libc::dlsym(library, c"cudaUmSimMisuse".as_ptr());
        match found.is_null() {
            true => 0,
            false => {
                std::mem::transmute::<*mut c_void, Report>(found)(text.as_mut_ptr(), text.len())
            }
        }
    };
    // SAFETY: the function ends the text with a NUL, and so does the array without it.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    (count, text.to_string_lossy().into_owned())
}
