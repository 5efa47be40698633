//! NVRTC, NVIDIA's compiler of CUDA C++ in a library: the few functions that make PTX. It needs no GPU and no driver.

use crate::error::{Attempt, write_attempts};
use crate::loader::toolkits;
use crate::variable::variable;
use crate::{open, symbols};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr::null_mut;

/// Names a library file (a path, or a name for the system's loader); if it is set, nothing else is tried.
const NVRTC: &str = "CUDA_UM_NVRTC";

#[cfg(windows)]
const NAMES: [&str; 3] = [
    "nvrtc64_130_0.dll",
    "nvrtc64_120_0.dll",
    "nvrtc64_112_0.dll",
];
#[cfg(not(windows))]
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"];

/// Folders of a toolkit that may contain it.
const FOLDERS: [&str; 4] = ["lib64", "lib", "bin/x64", "bin"];

type Program = *mut c_void;
type Text = *const c_char;

macro_rules! functions {
    ($($function:ident($($argument:ty),*);)*) => {
        #[allow(non_snake_case, reason = "C names")]
        struct Functions {
            $($function: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// # Safety
            /// Every address is null, or NVRTC's function of this name.
            unsafe fn ask(resolve: symbols::Resolve<'_>) -> Result<Self, NvrtcError> {
                Ok(Self {
                    $($function: {
                        let name = concat!(stringify!($function), "\0");
                        let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("one NUL, at the end");
                        // SAFETY: required of the caller; the field has the type of this name.
                        unsafe { symbols::function(resolve(name)) }
                            .ok_or(NvrtcError::MissingSymbol { symbol: stringify!($function) })?
                    },)*
                })
            }
        }
    };
}

functions! {
    nvrtcGetNumSupportedArchs(*mut c_int);
    nvrtcGetSupportedArchs(*mut c_int);
    nvrtcCreateProgram(*mut Program, Text, Text, c_int, *const Text, *const Text);
    nvrtcCompileProgram(Program, c_int, *const Text);
    nvrtcDestroyProgram(*mut Program);
    nvrtcGetPTXSize(Program, *mut usize);
    nvrtcGetPTX(Program, *mut c_char);
    nvrtcGetProgramLogSize(Program, *mut usize);
    nvrtcGetProgramLog(Program, *mut c_char);
}

/// The functions of one NVRTC. The library stays loaded.
pub struct Nvrtc(Functions);

impl Nvrtc {
    /// Opens NVRTC: the library that `CUDA_UM_NVRTC` names (an absolute path, or a name for the system's loader), or else those of CUDA 13,
    /// 12 and 11 by the names for the system's loader, then in `CUDA_HOME`, `CUDA_PATH` and, except on Windows, `/usr/local/cuda*`. Loading
    /// a library runs its code, so these variables are trusted, as for [`load`](crate::load).
    ///
    /// # Errors
    /// [`NvrtcError::NotFound`] with all attempts, or [`NvrtcError::MissingSymbol`] for a library older than CUDA 11.2.
    pub fn open() -> Result<Self, NvrtcError> {
        let named = variable(NVRTC);
        let candidates = |name| open::candidates(named.clone(), name, &FOLDERS, &toolkits());
        let mut attempts = Vec::new();
        for candidate in NAMES.into_iter().flat_map(candidates) {
            // SAFETY: NVIDIA's library by its name, or a file that a trusted variable names.
            let opened = candidate.and_then(|path| unsafe { open::open_at(&path) });
            match opened {
                // SAFETY: as above: it has the functions that NVIDIA documents, and is never unloaded.
                Ok(mut resolve) => return unsafe { Functions::ask(&mut resolve) }.map(Self),
                Err(attempt) => {
                    attempts.extend(Some(attempt).filter(|new| !attempts.contains(new)))
                }
            }
        }
        Err(NvrtcError::NotFound { attempts })
    }

    /// The virtual architectures for which it compiles: 80 for `compute_80`.
    ///
    /// # Errors
    /// [`NvrtcError::Call`].
    #[doc(alias = "nvrtcGetSupportedArchs")]
    pub fn architectures(&self) -> Result<Vec<u32>, NvrtcError> {
        let mut count = 0;
        // SAFETY: the place is valid for one write.
        let code = unsafe { (self.0.nvrtcGetNumSupportedArchs)(&mut count) };
        check("nvrtcGetNumSupportedArchs", code)?;
        let mut found: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has the number of places that the library writes.
        let code = unsafe { (self.0.nvrtcGetSupportedArchs)(found.as_mut_ptr()) };
        check("nvrtcGetSupportedArchs", code)?;
        Ok(found
            .into_iter()
            .filter_map(|arch| u32::try_from(arch).ok())
            .collect())
    }

    /// Compiles CUDA C++ to PTX, with options as for nvcc.
    ///
    /// # Errors
    /// [`NvrtcError::Compile`] with the compiler's log, or [`NvrtcError::Call`].
    #[doc(alias = "nvrtcCompileProgram")]
    pub fn compile(&self, source: &CStr, options: &[CString]) -> Result<String, NvrtcError> {
        let mut program = null_mut();
        let (none, name) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the texts end with a NUL and are read during the call; there are no headers.
        let code = unsafe {
            (self.0.nvrtcCreateProgram)(&mut program, source.as_ptr(), name, 0, none, none)
        };
        check("nvrtcCreateProgram", code)?;
        let compiled = self.compile_program(program, options);
        // SAFETY: the program was created above and is not used again.
        unsafe { (self.0.nvrtcDestroyProgram)(&mut program) };
        compiled
    }

    fn compile_program(&self, program: Program, options: &[CString]) -> Result<String, NvrtcError> {
        let options: Vec<Text> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(options.len()).unwrap_or(c_int::MAX);
        // SAFETY: the program exists, and the list has this number of texts, each with a NUL at its end.
        let code = unsafe { (self.0.nvrtcCompileProgram)(program, count, options.as_ptr()) };
        let (log, ptx) = ("nvrtcGetProgramLog", "nvrtcGetPTX");
        if code != 0 {
            // SAFETY: the program exists; the functions are the size and the text of one thing.
            let log = unsafe {
                text(
                    log,
                    program,
                    self.0.nvrtcGetProgramLogSize,
                    self.0.nvrtcGetProgramLog,
                )
            };
            return Err(match log {
                Ok(log) if !log.is_empty() => NvrtcError::Compile { log },
                _ => NvrtcError::Call {
                    call: "nvrtcCompileProgram",
                    code,
                },
            });
        }
        // SAFETY: as above.
        unsafe { text(ptx, program, self.0.nvrtcGetPTXSize, self.0.nvrtcGetPTX) }
    }
}

/// # Safety
/// The program exists, and `get` writes at most the number of bytes that `size` returns for it.
unsafe fn text(
    call: &'static str,
    program: Program,
    size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
) -> Result<String, NvrtcError> {
    let mut bytes = 0;
    // SAFETY: required of the caller.
    check(call, unsafe { size(program, &mut bytes) })?;
    let mut text = vec![0u8; bytes];
    // SAFETY: required of the caller.
    check(call, unsafe { get(program, text.as_mut_ptr().cast()) })?;
    text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(bytes));
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn check(call: &'static str, code: c_int) -> Result<(), NvrtcError> {
    match code {
        0 => Ok(()),
        _ => Err(NvrtcError::Call { call, code }),
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc").finish_non_exhaustive()
    }
}

/// The reason why NVRTC made no PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvrtcError {
    /// No library could be opened.
    NotFound {
        /// The attempts, in order.
        attempts: Vec<Attempt>,
    },
    /// The library lacks a function that NVRTC has from CUDA 11.2 on.
    MissingSymbol {
        /// The C name.
        symbol: &'static str,
    },
    /// The compiler refuses the source or an option.
    Compile {
        /// Its log, of several lines.
        log: String,
    },
    /// A function failed.
    Call {
        /// The function.
        call: &'static str,
        /// Its `nvrtcResult`.
        code: i32,
    },
}

impl fmt::Display for NvrtcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { attempts } => {
                write!(
                    f,
                    "no NVRTC found (it comes with the CUDA toolkit and with the wheel nvidia-cuda-nvrtc; set {NVRTC} to the path of \
                     libnvrtc); tried"
                )?;
                write_attempts(f, attempts)
            }
            Self::MissingSymbol { symbol } => {
                write!(
                    f,
                    "NVRTC lacks {symbol}, which every version from CUDA 11.2 on has"
                )
            }
            Self::Compile { log } => f.write_str(log),
            Self::Call { call, code } => write!(f, "{call}: error {code}"),
        }
    }
}

impl std::error::Error for NvrtcError {}
