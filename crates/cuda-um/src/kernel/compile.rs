//! CUDA C++ that is compiled at run time.

use crate::context::device::Device;
use crate::driver::module::one_line;
use crate::error::{Error, Result};
use crate::kernel::module::Module;
use cuda_um_sys::{Nvrtc, NvrtcError};
use std::ffi::CString;
use std::sync::OnceLock;

impl Module {
    /// Compiles CUDA C++ with [NVRTC](https://docs.nvidia.com/cuda/nvrtc/) for the device, and loads the PTX as [`Module::load`] does. This
    /// needs no GPU: a simulator runs the same PTX. The call uses no stream, and takes some milliseconds or more: keep the module.
    ///
    /// `options` are those of nvcc, such as `--use_fast_math` or `-I/path`. Without one that names an architecture, the code is for the
    /// newest that the device and NVRTC have. Give kernels `extern "C"`, so that [`Module::kernel`] finds them by their plain names.
    ///
    /// The library `libnvrtc` is opened at the first call. It comes with the CUDA toolkit, and alone with the Python package
    /// `nvidia-cuda-nvrtc`; `CUDA_UM_NVRTC` names the file where the system's loader does not find it.
    ///
    /// ```no_run
    /// # let device = cuda_um::Runtime::open()?.device(0)?;
    /// let source = r#"
    ///     extern "C" __global__ void twice(float *x, unsigned n) {
    ///         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    ///         if (i < n) x[i] *= 2;
    ///     }"#;
    /// let twice = cuda_um::Module::compile(&device, source, &[])?.kernel("twice")?;
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] if there is no NVRTC (the error lists where it was looked for), [`Error::InvalidArgument`] for source or
    /// options that the compiler refuses (the error has its log), and the errors of [`Module::load`]: an old driver does not take the PTX
    /// of a newer NVRTC.
    #[doc(alias = "nvrtcCompileProgram")]
    pub fn compile(device: &Device, source: &str, options: &[&str]) -> Result<Self> {
        static NVRTC: OnceLock<Nvrtc> = OnceLock::new();
        let nvrtc = match NVRTC.get() {
            Some(nvrtc) => nvrtc,
            None => {
                let opened = Nvrtc::open().map_err(refusal)?;
                NVRTC.get_or_init(|| opened)
            }
        };
        let text = |what, text: &str| {
            CString::new(text).map_err(|error| Error::InvalidArgument {
                what,
                value: format!("a text with a NUL at byte {}", error.nul_position()),
                reason: "the compiler would read only the part before the NUL".to_owned(),
            })
        };
        let mut all = Vec::with_capacity(options.len() + 1);
        for option in options {
            all.push(text("an option of NVRTC", option)?);
        }
        let names_architecture = |option: &&str| {
            ["-arch", "--gpu-architecture"]
                .iter()
                .any(|name| option.starts_with(name))
        };
        if !options.iter().any(names_architecture) {
            let (major, minor) = device.capabilities().compute_capability;
            let newest = nvrtc.architectures().map_err(refusal)?.into_iter();
            let newest = newest.filter(|arch| *arch <= major * 10 + minor).max();
            let newest = newest.ok_or_else(|| Error::NotSupported {
                what: format!("compiling for sm_{major}{minor}"),
                needs: "an NVRTC that knows this architecture".to_owned(),
                have: "a newer one, for newer devices only".to_owned(),
            })?;
            all.push(text(
                "an option of NVRTC",
                &format!("--gpu-architecture=compute_{newest}"),
            )?);
        }
        let ptx = nvrtc
            .compile(&text("CUDA C++", source)?, &all)
            .map_err(refusal)?;
        Self::load(device, &ptx)
    }
}

fn refusal(error: NvrtcError) -> Error {
    match error {
        NvrtcError::Compile { log } => Error::InvalidArgument {
            what: "CUDA C++",
            value: "this source with these options".to_owned(),
            reason: one_line(log.as_bytes()),
        },
        error => Error::NotSupported {
            what: "Module::compile".to_owned(),
            needs: "NVRTC of CUDA 11.2 or newer".to_owned(),
            have: format!("none that works: {error}"),
        },
    }
}
