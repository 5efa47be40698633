//! Runs the generated programs on a GPU, and records its answers.
//!
//! - `ptx_answers FILE [FOLDER]` writes a line for each seed, and prints each program that is refused or fails, and each
//!   approximation whose answer is beyond its bound. With a folder, the whole output of each program goes there, too, as `SEED`. A program that answers
//!   otherwise when the driver compiles it without optimisation is printed, and has no line.
//! - `ptx_answers --print SEED` prints a program; it needs no GPU. `--files FOLDER` writes all of them there.
//!
//! A program that fails takes its process's context with it. So processes of their own run the seeds, and the next one begins behind
//! the seed at which the last one ended.
#![expect(unsafe_code, reason = "calls the CUDA driver")]

#[path = "../tests/generated/mod.rs"]
mod generated;

use generated::{Generator, Program};
use libloading::Library;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

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
        ["--range", from, to, ref folder @ ..] => {
            return run(&generator, from.parse()?..to.parse()?, folder.first());
        }
        [file] => return record(generator.seeds().end, file, None),
        [file, folder] => return record(generator.seeds().end, file, Some(folder)),
        _ => {
            return Err("ptx_answers FILE [FOLDER] | --print SEED | --files FOLDER".into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs seeds up to the first that fails. Prints a line for each: `SEED answer HASH`, or what is wrong.
fn run(generator: &Generator, seeds: Range<u64>, folder: Option<&&str>) -> Result<ExitCode> {
    let driver = Driver::open()?;
    for seed in seeds {
        let program = generator.program(seed);
        if generated::is_open(seed, &program) {
            println!("{seed} unsettled ({})", program.name);
            continue;
        }
        let outputs = [4, 0].map(|level| driver.run(&program, level));
        let output = match outputs {
            [Ok(output), Ok(plain)] => {
                let hashes = [&output, &plain].map(|output| generated::hash(&program, output));
                if hashes[0] != hashes[1] {
                    println!("{seed} unsettled ({})", program.name);
                    continue;
                }
                output
            }
            [Err(error), _] | [_, Err(error)] => {
                let error = error.to_string().replace('\n', " ");
                println!("{seed} failed ({}): {error}", program.name);
                return Ok(ExitCode::FAILURE);
            }
        };
        if let Some(folder) = folder {
            let bytes: Vec<u8> = output.iter().flat_map(|word| word.to_le_bytes()).collect();
            std::fs::write(format!("{folder}/{seed}"), bytes)?;
        }
        compare(seed, &program, &output);
        println!("{seed} answer {:016x}", generated::hash(&program, &output));
    }
    Ok(ExitCode::SUCCESS)
}

/// Eight at a time, processes run all seeds.
fn record(end: u64, file: &str, folder: Option<&str>) -> Result<ExitCode> {
    let part = end.div_ceil(8);
    let results: Vec<_> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..8)
            .map(|index| index * part..end.min((index + 1) * part))
            .map(|seeds| {
                scope.spawn(move || watch(seeds, folder).map_err(|error| error.to_string()))
            })
            .collect();
        parts.into_iter().map(|part| part.join()).collect()
    });
    let (mut answers, mut failures) = (BTreeMap::new(), 0);
    for part in results {
        let (hashes, failed) = part.map_err(|_| "a thread panicked")??;
        answers.extend(hashes);
        failures += failed;
    }
    let text = answers
        .iter()
        .map(|(seed, hash)| format!("{seed} {hash}\n"));
    std::fs::write(file, text.collect::<String>())?;
    println!("{} answers, {failures} failed", answers.len());
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The hashes of some seeds, and how many programs failed.
fn watch(seeds: Range<u64>, folder: Option<&str>) -> Result<(Vec<(u64, String)>, u32)> {
    let (mut hashes, mut failures, mut next) = (Vec::new(), 0, seeds.start);
    while next < seeds.end {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--range", &next.to_string(), &seeds.end.to_string()])
            .args(folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(process.stdout.take().ok_or("no output")?).lines();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            lines.for_each(|line| _ = line.map(|line| sender.send(line)));
        });
        let mut failed = None;
        // A program that does not end is one that failed.
        while let Ok(line) = receiver.recv_timeout(Duration::from_secs(20)) {
            let mut words = line.split(' ');
            let seed = words.next().and_then(|seed| seed.parse::<u64>().ok());
            match (seed, words.next(), words.next()) {
                (Some(seed), Some("answer"), Some(hash)) => {
                    hashes.push((seed, hash.to_owned()));
                    next = seed + 1;
                }
                (Some(_), Some("failed"), _) => failed = Some(line),
                (Some(seed), Some("unsettled"), _) => {
                    println!("{line}");
                    next = seed + 1;
                }
                _ => println!("{line}"),
            }
        }
        _ = process.kill();
        if process.wait()?.success() && next == seeds.end {
            break;
        }
        println!(
            "{}",
            failed.unwrap_or_else(|| format!("{next} failed: its process ended"))
        );
        failures += 1;
        next += 1;
    }
    Ok((hashes, failures))
}

/// Prints where an approximation is beyond its bound.
fn compare(seed: u64, program: &Program, output: &[u32]) {
    let (Some(expected), Some(bound)) = (&program.expected, program.bound) else {
        return;
    };
    let each = expected.len() / (program.grid * program.block) as usize;
    let step = each.div_ceil(generated::EACH);
    let operands = program.input.len() / (expected.len() / step);
    let unlike = generated::differences(bound, expected, output);
    let hex = |words: &[u32]| {
        words
            .iter()
            .rev()
            .map(|word| format!("{word:08x}"))
            .collect::<String>()
    };
    if !unlike.is_empty() {
        println!(
            "{seed} unlike ({}): {} of {}",
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
        let (gpu, exact) = (
            hex(&output[index * step..][..step]),
            hex(&expected[index * step..][..step]),
        );
        println!("    {}: GPU {gpu}, exact {exact}", read.join(" "));
    }
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

    /// The output; `level` is that of the optimisation, 0 to 4.
    fn run(&self, program: &Program, level: usize) -> Result<Vec<u32>> {
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
        // CU_JIT_ERROR_LOG_BUFFER, its size, and CU_JIT_OPTIMIZATION_LEVEL.
        let mut options = [5, 6, 7];
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            log.len() as *mut c_void,
            level as *mut c_void,
        ];
        // SAFETY: the text ends with a zero; the log has the size that is declared.
        let loaded = unsafe {
            self.call::<Load>(c"cuModuleLoadDataEx", |f| {
                f(
                    &raw mut module,
                    text.as_ptr(),
                    3,
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
