//! Runs the generated programs on a GPU, and records its answers.
//!
//! - `ptx_answers FILE` writes a line for each seed, and prints each program that is refused or fails, and each single form whose
//!   answer differs from `math`.
//! - `ptx_answers FILE --full SEED...` also writes `FILE.SEED`, all words of the output in hexadecimal, for these seeds.
//! - `ptx_answers --print SEED` prints a program; it needs no GPU. `--files FOLDER` writes all of them there.
#![expect(unsafe_code, reason = "calls the CUDA driver")]

#[path = "../tests/generated/mod.rs"]
mod generated;

use generated::{Generator, Program};
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::fmt::Write;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let generator = Generator::new();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--print", seed] => print!("{}", generator.program(seed.parse()?).text),
        ["--files", folder] => {
            for seed in generator.seeds() {
                std::fs::write(format!("{folder}/{seed}.ptx"), generator.program(seed).text)?;
            }
        }
        [file] => return record(&generator, file, &[]),
        [file, "--full", ref seeds @ ..] => {
            let seeds: Vec<u64> = seeds
                .iter()
                .map(|seed| seed.parse())
                .collect::<std::result::Result<_, _>>()?;
            return record(&generator, file, &seeds);
        }
        _ => {
            return Err("ptx_answers FILE [--full SEED...] | --print SEED | --files FOLDER".into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn record(generator: &Generator, file: &str, full: &[u64]) -> Result<ExitCode> {
    let driver = Driver::open()?;
    let (mut answers, mut failures, mut unlike) = (String::new(), 0, 0);
    for seed in generator.seeds() {
        let program = generator.program(seed);
        let output = match driver.run(&program) {
            Ok(output) => output,
            Err(error) => {
                println!("{seed} ({}): {error}", program.name);
                failures += 1;
                continue;
            }
        };
        writeln!(
            answers,
            "{seed} {:016x}",
            generated::hash(&program, &output)
        )?;
        unlike += usize::from(compare(seed, &program, &output));
        if full.contains(&seed) {
            let words: Vec<String> = output.iter().map(|word| format!("{word:08x}")).collect();
            std::fs::write(format!("{file}.{seed}"), words.join("\n"))?;
        }
    }
    std::fs::write(file, answers)?;
    println!(
        "{} programs, {failures} failed, {unlike} forms unlike math",
        generator.seeds().end
    );
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints where a single form differs from `math`.
fn compare(seed: u64, program: &Program, output: &[u32]) -> bool {
    let Some(expected) = &program.expected else {
        return false;
    };
    let step = expected.len() / (program.grid * program.block) as usize / generated::EACH;
    let operands = program.input.len() / (expected.len() / step);
    let unlike: Vec<usize> = match program.bound {
        Some(bound) => generated::differences(bound, expected, output),
        None => (0..expected.len() / step)
            .filter(|i| expected[i * step..][..step] != output[i * step..][..step])
            .collect(),
    };
    let hex = |words: &[u32]| {
        words
            .iter()
            .rev()
            .map(|word| format!("{word:08x}"))
            .collect::<String>()
    };
    if !unlike.is_empty() {
        println!(
            "{seed} ({}): {} of {} unlike math",
            program.name,
            unlike.len(),
            expected.len() / step
        );
    }
    for index in unlike.iter().take(6) {
        let read: Vec<String> = program.input[index * operands..][..operands]
            .chunks(2)
            .map(hex)
            .collect();
        let (gpu, math) = (
            hex(&output[index * step..][..step]),
            hex(&expected[index * step..][..step]),
        );
        println!("    {}: GPU {gpu}, math {math}", read.join(" "));
    }
    !unlike.is_empty()
}

/// The driver API, with a context on device 0.
struct Driver(Library);

impl Driver {
    fn open() -> Result<Self> {
        // SAFETY: the driver's library has no initialiser that could fail for us.
        let driver = Self(unsafe { Library::new("libcuda.so.1") }?);
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the declared signatures are those of the driver API; both out-pointers are valid.
        unsafe {
            driver.call::<unsafe extern "C" fn(c_uint) -> c_int>(c"cuInit", |f| f(0))?;
            driver
                .call::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>(c"cuDeviceGet", |f| {
                    f(&raw mut device, 0)
                })?;
            type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
            driver.call::<Retain>(c"cuDevicePrimaryCtxRetain", |f| f(&raw mut context, device))?;
            driver.call::<unsafe extern "C" fn(*mut c_void) -> c_int>(c"cuCtxSetCurrent", |f| {
                f(context)
            })?;
        }
        Ok(driver)
    }

    /// # Safety
    /// `F` must be the signature of `name`, and `call` must keep its contract.
    unsafe fn call<F: Copy>(
        &self,
        name: &std::ffi::CStr,
        call: impl FnOnce(F) -> c_int,
    ) -> Result<()> {
        // SAFETY: the caller's.
        let function = unsafe { self.0.get::<F>(name.to_bytes()) }?;
        match call(*function) {
            0 => Ok(()),
            code => Err(format!("{} returned {code}", name.to_string_lossy()).into()),
        }
    }

    fn run(&self, program: &Program) -> Result<Vec<u32>> {
        let text = CString::new(program.text.as_str())?;
        let mut log = vec![0_u8; 4096];
        let (mut module, mut function) = (
            std::ptr::null_mut::<c_void>(),
            std::ptr::null_mut::<c_void>(),
        );
        type Load = unsafe extern "C" fn(
            *mut *mut c_void,
            *const c_char,
            c_uint,
            *mut c_int,
            *mut *mut c_void,
        ) -> c_int;
        // CU_JIT_ERROR_LOG_BUFFER and its size.
        let mut options = [5, 6];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        // SAFETY: the text ends with a zero; the log has the size that is declared.
        let loaded = unsafe {
            self.call::<Load>(c"cuModuleLoadDataEx", |f| {
                f(
                    &raw mut module,
                    text.as_ptr(),
                    2,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            })
        };
        if let Err(error) = loaded {
            return Err(format!(
                "{error}: {}",
                String::from_utf8_lossy(&log).trim_end_matches('\0')
            )
            .into());
        }
        let mut output = vec![0_u32; program.words];
        let (mut input_at, mut output_at) = (0_u64, 0_u64);
        let (input_bytes, output_bytes) =
            (size_of_val(&program.input[..]), size_of_val(&output[..]));
        type Function = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_int;
        type Alloc = unsafe extern "C" fn(*mut u64, usize) -> c_int;
        type ToDevice = unsafe extern "C" fn(u64, *const c_void, usize) -> c_int;
        type ToHost = unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int;
        type Free = unsafe extern "C" fn(u64) -> c_int;
        // SAFETY: the signatures are those of the driver API; sizes are those of the vectors; the kernel has two pointers as parameters.
        unsafe {
            self.call::<Function>(c"cuModuleGetFunction", |f| {
                f(&raw mut function, module, c"main".as_ptr())
            })?;
            self.call::<Alloc>(c"cuMemAlloc_v2", |f| f(&raw mut input_at, input_bytes))?;
            self.call::<Alloc>(c"cuMemAlloc_v2", |f| f(&raw mut output_at, output_bytes))?;
            self.call::<ToDevice>(c"cuMemcpyHtoD_v2", |f| {
                f(input_at, program.input.as_ptr().cast(), input_bytes)
            })?;
            self.call::<ToDevice>(c"cuMemcpyHtoD_v2", |f| {
                f(output_at, output.as_ptr().cast(), output_bytes)
            })?;
            let mut parameters = [
                (&raw mut input_at).cast::<c_void>(),
                (&raw mut output_at).cast(),
            ];
            type Launch = unsafe extern "C" fn(
                *mut c_void,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                *mut c_void,
                *mut *mut c_void,
                *mut *mut c_void,
            ) -> c_int;
            let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
            self.call::<Launch>(c"cuLaunchKernel", |f| {
                f(
                    function,
                    program.grid,
                    1,
                    1,
                    program.block,
                    1,
                    1,
                    0,
                    none,
                    parameters.as_mut_ptr(),
                    nothing,
                )
            })?;
            self.call::<ToHost>(c"cuMemcpyDtoH_v2", |f| {
                f(output.as_mut_ptr().cast(), output_at, output_bytes)
            })?;
            self.call::<Free>(c"cuMemFree_v2", |f| f(input_at))?;
            self.call::<Free>(c"cuMemFree_v2", |f| f(output_at))?;
            self.call::<unsafe extern "C" fn(*mut c_void) -> c_int>(c"cuModuleUnload", |f| {
                f(module)
            })?;
        }
        Ok(output)
    }
}
