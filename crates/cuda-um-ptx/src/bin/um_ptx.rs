//! `um_ptx`: lists the kernels of a PTX file, and runs one of them on the CPU with all checks and a report.
#![allow(unsafe_code, reason = "vouches for the buffers that a kernel gets")]

use clap::{Parser, Subcommand};
use cuda_um_ptx::{
    Checks, Device, Extent, Launch, LineReport, Memory, Module, Parameter, Refusal, Region, Report,
};
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  um_ptx list saxpy.ptx
  um_ptx run saxpy.ptx --entry saxpy_f32 --grid 4 --block 256 \\
      --arg f32:2 --arg f32[1000]=ramp --arg f32[1000] --arg u64:1000 --show 2

An argument is a value (u32:7, f32:1.5), or a buffer of elements (f32[1000]) with =ramp (0, 1, 2, …), =unwritten, or else zeros.
Types: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64.

Exit status: 0 the kernel ended; 1 a check found a mistake, or a file or an argument is not understood; 2 wrong usage.";

/// Runs PTX kernels on the CPU, with checks and a report
#[derive(Parser)]
#[command(name = "um_ptx", version, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The kernels of a file: their parameters, and whether they can run
    List { file: PathBuf },
    /// Runs a kernel
    Run(Run),
}

#[derive(clap::Args)]
struct Run {
    /// A file with PTX
    file: PathBuf,
    /// The kernel; not needed if the file has one
    #[arg(long)]
    entry: Option<String>,
    /// Blocks: X, or X,Y,Z
    #[arg(long, default_value = "1", value_parser = dimensions)]
    grid: [u32; 3],
    /// Threads of a block: X, or X,Y,Z
    #[arg(long, default_value = "32", value_parser = dimensions)]
    block: [u32; 3],
    /// Bytes of dynamic shared memory
    #[arg(long, default_value_t = 0)]
    shared: usize,
    /// An argument, in the order of the parameters
    #[arg(long = "arg", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// Runs blocks and warps in an order that this number decides
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The most instructions of warps
    #[arg(long, default_value_t = 1 << 32)]
    instructions: u64,
    /// Prints the first elements of this argument, from 0, when the kernel has ended
    #[arg(long)]
    show: Vec<usize>,
}

fn dimensions(text: &str) -> Result<[u32; 3], String> {
    let mut sizes = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err("at most three numbers".to_owned());
    }
    for (size, part) in sizes.iter_mut().zip(parts) {
        let number = part.trim().parse();
        *size = number.map_err(|_| format!("{part} is no number"))?;
    }
    Ok(sizes)
}

/// The address of the first buffer. The others have gaps between them, so that an access beyond one meets nothing.
const FIRST: u64 = 0x7f00_0000_0000;
const GAP: u64 = 1 << 20;

struct Buffer {
    base: u64,
    bytes: Vec<u8>,
    /// One bit for each byte.
    written: Vec<u8>,
}

/// The buffers of a launch: of its arguments, then of the module's variables.
#[derive(Default)]
struct Buffers(Vec<Buffer>);

impl Buffers {
    fn add(&mut self, bytes: Vec<u8>, is_written: bool) -> u64 {
        let end = |last: &Buffer| (last.base + last.bytes.len() as u64 + GAP).next_multiple_of(GAP);
        let base = self.0.last().map_or(FIRST, end);
        let bits = if is_written { 0xff } else { 0 };
        let written = vec![bits; bytes.len().div_ceil(8)];
        self.0.push(Buffer {
            base,
            bytes,
            written,
        });
        base
    }
}

// SAFETY: the buffers outlive the launch, no reference to their bytes is used while it runs, and they do not overlap.
unsafe impl Memory for Buffers {
    fn region(&self, address: u64) -> Result<Region, Refusal> {
        let end = |buffer: &Buffer| buffer.base + buffer.bytes.len() as u64;
        let mut buffers = self.0.iter();
        let found = buffers.find(|buffer| (buffer.base..end(buffer)).contains(&address));
        let buffer = found.ok_or_else(|| Refusal::Unmapped("it is in no argument".to_owned()))?;
        Ok(Region {
            base: buffer.base,
            bytes: buffer.bytes.len() as u64,
            host: buffer.bytes.as_ptr().cast_mut(),
            id: buffer.base,
            writable: true,
            page_bytes: 0,
            written: buffer.written.as_ptr().cast_mut(),
        })
    }
}

/// What depends on the type of an element: its bytes from a text (zeros from none), and a text from its bytes.
macro_rules! types {
    ($($name:ident)*) => {
        fn bytes_of(kind: &str, text: &str) -> Result<Vec<u8>, String> {
            match (kind, text) {
                $((stringify!($name), "") => Ok(vec![0; size_of::<$name>()]),
                (stringify!($name), text) => match text.parse::<$name>() {
                    Ok(value) => Ok(value.to_le_bytes().to_vec()),
                    Err(error) => Err(format!("{text} as {kind}: {error}")),
                },)*
                _ => Err(concat!("the types are" $(, " ", stringify!($name))*).to_owned()),
            }
        }

        fn text_of(kind: &str, element: &[u8]) -> String {
            match kind {
                $(stringify!($name) => element.try_into().map_or_else(|_| String::new(), |bytes| $name::from_le_bytes(bytes).to_string()),)*
                _ => String::new(),
            }
        }
    };
}

types! { u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 }

/// The bytes of an argument; for a buffer its index and the type of its elements, too.
type Argument = (Vec<u8>, Option<(usize, String)>);

fn argument(text: &str, buffers: &mut Buffers) -> Result<Argument, String> {
    if let Some((kind, value)) = text.split_once(':') {
        return Ok((bytes_of(kind, value)?, None));
    }
    let (shape, fill) = text.split_once('=').unwrap_or((text, "zeros"));
    let parts = shape
        .strip_suffix(']')
        .and_then(|shape| shape.split_once('['));
    let neither = || format!("{text} is neither a value (u32:7) nor a buffer (f32[1000])");
    let (kind, count) = parts.ok_or_else(neither)?;
    let count: usize = count.parse().map_err(|_| neither())?;
    let size = bytes_of(kind, "")?.len();
    let total = count.checked_mul(size).filter(|total| *total <= 1 << 32);
    let mut bytes = vec![0; total.ok_or("a buffer has at most 4 GiB")?];
    match fill {
        "zeros" | "unwritten" => {}
        "ramp" => {
            for (index, element) in bytes.chunks_exact_mut(size).enumerate() {
                // What a byte holds, with a sign or without.
                let value = if size == 1 { index & 0x7f } else { index };
                element.copy_from_slice(&bytes_of(kind, &value.to_string())?);
            }
        }
        other => return Err(format!("{text}: {other} is neither ramp nor unwritten")),
    }
    let index = buffers.0.len();
    let base = buffers.add(bytes, fill != "unwritten");
    Ok((base.to_le_bytes().to_vec(), Some((index, kind.to_owned()))))
}

fn run(run: &Run) -> Result<(), Box<dyn Error>> {
    let module = read(&run.file)?;
    let names: Vec<_> = module.kernels().map(|kernel| kernel.name()).collect();
    let all = names.join(", ");
    let name = match (&run.entry, names.as_slice()) {
        (Some(name), _) => name,
        (None, [name]) => *name,
        (None, _) => return Err(format!("name one of the kernels by --entry: {all}").into()),
    };
    let kernel = module.kernel(name);
    let kernel = kernel.ok_or_else(|| format!("there is no kernel {name}; the file has {all}"))?;
    let program = kernel.load(&Device::default())?;
    let places = program.parameters();
    let given = run.arguments.len();
    if places.len() != given {
        let (count, sizes) = (places.len(), sizes(places));
        let text = format!(
            "{name} has {count} parameters (bytes: {sizes}), and {given} arguments were given"
        );
        return Err(text.into());
    }
    let mut buffers = Buffers::default();
    let (mut parameters, mut extents, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for (parameter, (text, place)) in run.arguments.iter().zip(places).enumerate() {
        let (bytes, buffer) = argument(text, &mut buffers)?;
        if bytes.len() != place.bytes {
            let (found, expected) = (bytes.len(), place.bytes);
            let text = format!(
                "argument {parameter}, {text}, has {found} bytes, and its parameter {expected}"
            );
            return Err(text.into());
        }
        parameters.resize(place.offset, 0);
        parameters.extend(bytes);
        if let Some((index, _)) = &buffer {
            extents.push(Extent {
                base: buffers.0[*index].base,
                bytes: buffers.0[*index].bytes.len() as u64,
                writable: true,
                parameter,
            });
        }
        shown.push(buffer);
    }
    let first = buffers.0.len();
    let variables = module
        .variables()
        .map(|variable| vec![0; variable.bytes as usize]);
    let variables: Vec<u64> = variables.map(|zeros| buffers.add(zeros, true)).collect();
    for index in 0..variables.len() {
        buffers.0[first + index].bytes = module.initial_bytes(index, &variables);
    }
    let launch = Launch {
        grid: run.grid,
        block: run.block,
        shared_bytes: run.shared,
        parameters: &parameters,
        variables: &variables,
        extents: &extents,
        threads: 1,
        seed: run.seed,
        instructions: run.instructions,
        checks: Checks::ALL,
        profile: true,
        ..Launch::default()
    };
    print!("{}", describe(&program.run(&launch, &buffers)?));
    for index in &run.show {
        let buffer = shown.get(*index).and_then(Option::as_ref);
        let (at, kind) = buffer.ok_or_else(|| format!("argument {index} is no buffer"))?;
        let elements = buffers.0[*at].bytes.chunks(bytes_of(kind, "")?.len());
        let texts: Vec<_> = elements
            .take(16)
            .map(|element| text_of(kind, element))
            .collect();
        println!("argument {index}: {}", texts.join(" "));
    }
    Ok(())
}

/// The report: sums, and the lines with the most traffic.
fn describe(report: &Report) -> String {
    let mut text = format!(
        "{} instructions of warps, {} of threads; {} branches parted lanes\n",
        report.instructions, report.thread_instructions, report.divergent_branches
    );
    for (name, traffic) in [
        ("global", report.global),
        ("shared", report.shared),
        ("local", report.local),
    ] {
        let _ = writeln!(
            text,
            "{name}: {} bytes read, {} written",
            traffic.read, traffic.written
        );
    }
    let cost = |line: &LineReport| line.sectors + line.bank_conflicts + line.divergent_branches;
    let mut lines: Vec<_> = report.lines.iter().filter(|line| cost(line) > 0).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(cost(line)));
    if !lines.is_empty() {
        text += "  line  source  instructions  sectors  without gaps  bank conflicts  parted\n";
    }
    for line in lines.into_iter().take(20) {
        let _ = writeln!(
            text,
            "{:>6}  {:>6}  {:>12}  {:>7}  {:>12}  {:>14}  {:>6}",
            line.line,
            line.source.1,
            line.instructions,
            line.sectors,
            line.ideal_sectors,
            line.bank_conflicts,
            line.divergent_branches
        );
    }
    text
}

fn sizes(parameters: &[Parameter]) -> String {
    let sizes = parameters
        .iter()
        .map(|parameter| parameter.bytes.to_string());
    sizes.collect::<Vec<_>>().join(", ")
}

fn list(file: &PathBuf) -> Result<(), Box<dyn Error>> {
    let module = read(file)?;
    let (major, minor) = module.version();
    println!("PTX {major}.{minor} for {}", module.target());
    for kernel in module.kernels() {
        let sizes = sizes(&kernel.parameters());
        println!("{}: parameters of {sizes} bytes", kernel.name());
        if let Err(error) = kernel.load(&Device::default()) {
            println!("    cannot run: {error}");
        }
    }
    Ok(())
}

fn read(file: &PathBuf) -> Result<Module, Box<dyn Error>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
    Ok(Module::parse(&text).map_err(|error| named(&error))?)
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::List { file } => list(&file),
        Task::Run(arguments) => run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("um_ptx: {error}");
            ExitCode::FAILURE
        }
    }
}
