//! `cargo xtask build-kernels`: compiles CUDA C++ to portable PTX, which is checked in, and on request to native code.
//!
//! nvcc 13 writes at least PTX 9.0 for compute capability 7.5, and drivers before CUDA 13 refuse this. The kernels use only
//! features of the versions in their [`Portable`] header, so the two header lines are replaced by these versions. ptxas of CUDA
//! 12.9 and 13.0 then checks the result.

use crate::{wheels, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The PTX version and target of some sources.
struct Portable {
    sources: &'static [&'static str],
    /// The architecture for which nvcc compiles.
    compute: &'static str,
    version: &'static str,
    target: &'static str,
    /// Architectures for which each of [`ASSEMBLERS`] assembles the PTX.
    proofs: [&'static [&'static str]; 2],
}

/// The first entry that names a source counts; the last entry is for all other sources.
const PORTABLE: [Portable; 4] = [
    // Tensor cores: drivers from CUDA 11.0 on, Ampere and newer.
    Portable {
        sources: &["exact_filter", "exact_prepare", "exact_top_k"],
        compute: "compute_80",
        version: "7.0",
        target: "sm_80",
        proofs: [
            &["sm_80", "sm_89", "sm_90"],
            &["sm_80", "sm_90", "sm_100", "sm_120"],
        ],
    },
    // Asynchronous copies with a hint to L2: drivers from CUDA 11.4 on, Ampere and newer.
    Portable {
        sources: &["cosine_top_k_few_80"],
        compute: "compute_80",
        version: "7.4",
        target: "sm_80",
        proofs: [
            &["sm_80", "sm_89", "sm_90"],
            &["sm_80", "sm_90", "sm_100", "sm_120"],
        ],
    },
    // Instructions that only Hopper has: drivers from CUDA 12.0 on, and only compute capability 9.0.
    Portable {
        sources: &["exact_filter_90a"],
        compute: "compute_90a",
        version: "8.0",
        target: "sm_90a",
        proofs: [&["sm_90a"], &["sm_90a"]],
    },
    // Drivers from CUDA 10.1 on, Pascal and newer.
    Portable {
        sources: &[],
        compute: "compute_75",
        version: "6.4",
        target: "sm_60",
        proofs: [
            &["sm_60", "sm_70", "sm_90"],
            &["sm_75", "sm_90", "sm_100", "sm_120"],
        ],
    },
];

/// The compiler of the checked-in PTX. All packages are pinned, because a newer nvvm writes other text, or a PTX version that
/// ptxas refuses.
const COMPILER: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];

/// The assemblers that check it.
const ASSEMBLERS: [(&str, &str); 2] = [
    (
        "nvidia-cuda-nvcc-cu12==12.9.86",
        "nvidia/cuda_nvcc/bin/ptxas",
    ),
    ("nvidia-cuda-nvcc==13.0.88", "nvidia/cu13/bin/ptxas"),
];

/// Options of `cargo xtask build-kernels`.
#[derive(clap::Args)]
pub struct Args {
    /// Compare with the checked-in PTX, and write nothing.
    #[arg(long)]
    check: bool,
    /// Also build native code for these architectures (sm_75 … sm_121) into target/kernels/, with an installed toolkit.
    #[arg(long, value_delimiter = ',', value_name = "SM")]
    arch: Vec<String>,
}

/// nvcc numbers the registers of `cosine_top_k_some.cu` in two ways, at random (in 1 of 24 runs the other one). So a file that differs is
/// compiled again, up to this many times.
const RETRIES: usize = 8;

/// Crates with kernels: sources in `cuda`, PTX in `ptx`.
const CRATES: [&str; 2] = ["kernels", "extras/search/um-search"];

/// Compiles the sources of all [`CRATES`].
pub fn run(args: &Args) -> Result<()> {
    let mut sources = Vec::new();
    for of in CRATES {
        sources.extend(sources_in(&workspace::root().join(of).join("cuda"))?);
    }
    let pinned = toolkit()?.join("bin/nvcc");
    let differing = Mutex::new(BTreeSet::new());
    workspace::on_each_core(&sources, |source| {
        let file = ptx_of(source)?;
        let checked_in = fs::read_to_string(&file).unwrap_or_default();
        let mut text = portable_ptx(&pinned, source)?;
        for _ in 0..RETRIES {
            if text == checked_in {
                break;
            }
            text = portable_ptx(&pinned, source)?;
        }
        if text == checked_in {
            return Ok(());
        }
        if args.check {
            let shown = file.strip_prefix(workspace::root()).unwrap_or(&file);
            let mut differing = differing.lock().unwrap_or_else(PoisonError::into_inner);
            differing.insert(shown.display().to_string());
        } else {
            fs::create_dir_all(file.parent().context("a file has a folder")?)?;
            fs::write(&file, text)?;
        }
        Ok(())
    })?;
    let differing = differing
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if !differing.is_empty() {
        bail!(
            "not up to date with the sources: {} (run `cargo xtask build-kernels`)",
            Vec::from_iter(differing).join(", ")
        );
    }
    let proofs = prove(&sources)?;
    println!(
        "{} kernels files: PTX {}, {proofs}",
        sources.len(),
        if args.check {
            "as checked in"
        } else {
            "written"
        }
    );
    if !args.arch.is_empty() {
        native(&args.arch, &sources, &pinned)?;
    }
    Ok(())
}

/// The checked-in PTX of a source: `cuda/x.cu` has `ptx/x.ptx` beside its folder.
fn ptx_of(source: &Path) -> Result<PathBuf> {
    let crate_folder = source.parent().and_then(Path::parent);
    let name = source.file_stem().context("a source has a name")?;
    let folder = crate_folder.context("a source has a crate")?.join("ptx");
    Ok(folder.join(name).with_extension("ptx"))
}

fn sources_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut sources: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
    sources.sort();
    ensure!(
        !sources.is_empty(),
        "{} holds no .cu files",
        folder.display()
    );
    Ok(sources)
}

/// The PTX version and target of a source.
fn portable(source: &Path) -> &'static Portable {
    let named = |portable: &&Portable| {
        let stem = source.file_stem().map(|stem| stem.to_string_lossy());
        portable
            .sources
            .iter()
            .any(|name| stem.as_deref() == Some(*name))
    };
    PORTABLE
        .iter()
        .find(named)
        .unwrap_or(&PORTABLE[PORTABLE.len() - 1])
}

/// The folder of the pinned compiler, with `bin` and `include`.
pub fn toolkit() -> Result<PathBuf> {
    at_a_fixed_path(&wheels::install(&COMPILER)?.join("nvidia/cu13"))
}

/// A link to the toolkit. nvcc numbers the registers of some kernels by the path of its headers, so each checkout uses the same path.
fn at_a_fixed_path(toolkit: &Path) -> Result<PathBuf> {
    let link = PathBuf::from("/tmp/cuda-um-nvcc");
    let new = link.with_extension(std::process::id().to_string());
    std::os::unix::fs::symlink(toolkit, &new)?;
    // Replaces the link of another checkout at once: a process that runs beside this one finds the same compiler there.
    fs::rename(&new, &link)?;
    Ok(link)
}

/// nvcc's PTX with the replaced header, and without text that depends on the machine.
fn portable_ptx(nvcc: &Path, source: &Path) -> Result<String> {
    let portable = portable(source);
    let stem = source.file_stem().context("a source has a name")?;
    let scratch = scratch(&stem.to_string_lossy())?;
    let file = scratch.join("kernel.ptx");
    workspace::run(
        compiler(nvcc)
            .args(["-ptx", &format!("-arch={}", portable.compute), "-O3", "-o"])
            .arg(&file)
            .arg(source),
    )?;
    let text = fs::read_to_string(&file)?;
    fs::remove_dir_all(scratch)?;
    let name = source
        .file_name()
        .context("a source has a name")?
        .to_string_lossy();
    let mut lowered = format!(
        "// @generated by `cargo xtask build-kernels` from cuda/{name} (nvcc 13.0.88). Do not edit.\n"
    );
    let mut header = [false; 2];
    // A hint to ptxas which bytes of a load are used; versions before 8.3 do not know it.
    let hint = |line: &str| line.trim_start().starts_with(".pragma \"used_bytes_mask");
    for line in text
        .lines()
        .filter(|line| !line.starts_with("//") && !hint(line))
    {
        let line = match line.split_whitespace().next() {
            Some(".version") => {
                header[0] = true;
                format!(".version {}", portable.version)
            }
            Some(".target") => {
                header[1] = true;
                format!(".target {}", portable.target)
            }
            _ => line.trim_end().to_owned(),
        };
        if !(line.is_empty() && lowered.ends_with("\n\n")) {
            lowered.push_str(&line);
            lowered.push('\n');
        }
    }
    ensure!(
        header == [true; 2],
        "nvcc wrote no .version or no .target for {}",
        source.display()
    );
    ensure!(
        !lowered.contains("_INTERNAL_"),
        "{}: a static or unnamed symbol has a name that depends on the path of the file",
        source.display()
    );
    Ok(format!("{}\n", lowered.trim_end()))
}

/// Assembles the checked-in PTX with every assembler for every architecture.
fn prove(sources: &[PathBuf]) -> Result<String> {
    let scratch = scratch("cubin")?;
    let mut told = Vec::new();
    for (number, (wheel, assembler)) in ASSEMBLERS.into_iter().enumerate() {
        let assembler = wheels::install(&[wheel])?.join(assembler);
        let jobs = sources.iter().flat_map(|source| {
            let architectures = portable(source).proofs[number].iter();
            architectures.map(move |architecture| (source, *architecture))
        });
        let jobs: Vec<_> = jobs.collect();
        workspace::on_each_core(&jobs, |(source, architecture)| {
            let stem = source.file_stem().context("a source has a name")?;
            let cubin = scratch.join(stem).with_extension(architecture);
            let mut assemble = Command::new(&assembler);
            assemble.arg(format!("-arch={architecture}"));
            workspace::run(assemble.arg(ptx_of(source)?).arg("-o").arg(cubin))
        })?;
        let all: BTreeSet<&str> = jobs
            .into_iter()
            .map(|(_, architecture)| architecture)
            .collect();
        let version = wheel.split_once("==").map_or(wheel, |(_, version)| version);
        told.push(format!(
            "assembled by ptxas {version} for {}",
            all.into_iter().collect::<Vec<_>>().join(" ")
        ));
    }
    fs::remove_dir_all(scratch)?;
    Ok(told.join(", "))
}

/// Native code, compiled with the toolkit of this machine, or otherwise with the pinned compiler.
fn native(architectures: &[String], sources: &[PathBuf], pinned: &Path) -> Result<()> {
    let nvcc = installed_nvcc().unwrap_or_else(|| pinned.to_path_buf());
    println!("native code with {}", nvcc.display());
    for architecture in architectures {
        ensure!(
            architecture
                .strip_prefix("sm_")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())),
            "--arch takes names as sm_90, not {architecture:?}"
        );
        let folder = workspace::target().join("kernels").join(architecture);
        fs::create_dir_all(&folder)?;
        for source in sources {
            // Code that needs one specific architecture is built only for that one.
            let target = portable(source).target;
            if target.ends_with('a') && target.strip_suffix('a') != Some(architecture) {
                continue;
            }
            let own = if target.ends_with('a') {
                target
            } else {
                architecture
            };
            let file = folder
                .join(source.file_stem().context("a source has a name")?)
                .with_extension("cubin");
            workspace::run(
                compiler(&nvcc)
                    .arg("-cubin")
                    .arg(format!("-arch={own}"))
                    .args(["-O3", "-o"])
                    .arg(&file)
                    .arg(source),
            )?;
        }
        println!("{}", folder.display());
    }
    Ok(())
}

/// `nvcc` of `CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`, or the path.
fn installed_nvcc() -> Option<PathBuf> {
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
        .map(PathBuf::from);
    let toolkits = toolkits
        .chain([PathBuf::from("/usr/local/cuda")])
        .map(|toolkit| toolkit.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    toolkits
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file())
}

/// nvcc with the headers of its own folder; with `-idirafter`, so that the headers of a toolkit come first.
fn compiler(nvcc: &Path) -> Command {
    let mut command = Command::new(nvcc);
    if let Some(include) = nvcc
        .parent()
        .and_then(Path::parent)
        .map(|root| root.join("include"))
    {
        command.arg("-I").arg(include);
    }
    command
}

fn scratch(name: &str) -> Result<PathBuf> {
    let folder = workspace::target().join(format!("build-kernels-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
