//! `cargo xtask <task>`: tasks of the workspace beyond `cargo build` and `cargo test`.

mod aarch64;
mod bench_peers;
mod bindgen;
mod build_kernels;
mod floors;
mod gpu_bundle;
mod judge;
mod nightly;
mod packages;
mod real_cudart;
mod sanitize;
mod sim_lib;
mod std_source;
mod wheels;
mod workspace;

use clap::Parser;

/// Tasks of the cuda-um workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Generate the bindings of cuda-um-sys from NVIDIA's headers of CUDA 11.8, 12.9 and 13.0.
    Bindgen {
        /// Compare with the checked-in files, and write nothing.
        #[arg(long)]
        check: bool,
    },
    /// Compile the CUDA kernels to the checked-in portable PTX, and with --arch to native code.
    BuildKernels(build_kernels::Args),
    /// Open the real libcudart of five CUDA versions and check symbols, signatures and layouts; no GPU is needed.
    RealCudart,
    /// Run the tests on the simulator under AddressSanitizer (needs a nightly toolchain) or ThreadSanitizer (needs the standard library's
    /// source), or unit tests under Miri (needs the component `miri`).
    Sanitize(sanitize::Args),
    /// Run the tests and the main job, compiled for aarch64 Linux, on the simulator under qemu.
    Aarch64(aarch64::Args),
    /// Pack release tests, examples and benches into one folder that runs on a machine with a GPU and no Rust.
    GpuBundle(gpu_bundle::Args),
    /// Measure cuda-um, raw CUDA and other libraries on the GPU of this machine (docs/measuring.md).
    Bench(Options),
    /// Run a public test suite on the simulator, and compare with the list in .ci/judges of the tests that do not pass.
    Judge {
        suite: judge::Suite,
        /// Another copy of the public repository of cuda-core or samples.
        #[arg(long)]
        source: Option<std::path::PathBuf>,
    },
    /// Check that imports inside of cuda-um point down.
    Floors,
    /// Build the compiled peers of the measurements (CUDA C++, RMM, cudarc); no GPU and no toolkit is needed.
    BenchPeers(bench_peers::Args),
    /// Build the simulator as libcuda.so.1, libcudart.so.{12,13}, libcupti.so.{12,13} and libnvidia-ml.so.1 into target/sim-lib (docs/without-a-gpu.md).
    SimLib(sim_lib::Args),
    /// Unpack pinned wheels (`name==version`) below the target folder, and print their folder, which is as `site-packages`.
    Wheels { requirements: Vec<String> },
    /// Pack the published crates, check their licences and sizes, and compile examples/starter against them outside of the repository.
    Packages,
}

/// The options of a program; `--help` lists them.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Options {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

impl Options {
    /// Builds and runs a program of um-benches.
    fn run(&self, program: &str) -> anyhow::Result<()> {
        let mut command = workspace::cargo();
        command.args(["run", "--release", "-p", "um-benches", "--bin", program]);
        workspace::run(command.arg("--").args(&self.options))
    }
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Bindgen { check } => bindgen::run(check),
        Task::BuildKernels(args) => build_kernels::run(&args),
        Task::RealCudart => real_cudart::run(),
        Task::Sanitize(args) => sanitize::run(&args),
        Task::Aarch64(args) => aarch64::run(&args),
        Task::GpuBundle(args) => gpu_bundle::run(&args),
        Task::Bench(args) => args.run("um_bench"),
        Task::Judge { suite, source } => judge::run(suite, source.as_deref()),
        Task::Floors => floors::run(),
        Task::BenchPeers(args) => bench_peers::run(&args),
        Task::SimLib(args) => sim_lib::run(&args),
        Task::Wheels { requirements } => {
            let requirements: Vec<&str> = requirements.iter().map(String::as_str).collect();
            println!("{}", wheels::install(&requirements)?.display());
            Ok(())
        }
        Task::Packages => packages::run(),
    }
}
