//! `cargo xtask <task>`: what the workspace needs beyond `cargo build` and `cargo test`.

mod bindgen;
mod gpu_bundle;
mod wheels;
mod workspace;

use clap::Parser;

/// Tasks of the cuda-um workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Make the bindings of cuda-um-sys from NVIDIA's headers of CUDA 11.8, 12.9 and 13.0.
    Bindgen {
        /// Compare with the files that are checked in, and write nothing.
        #[arg(long)]
        check: bool,
    },
    /// Pack release tests, examples and benches into one folder that runs on a machine with a GPU and no Rust.
    GpuBundle(gpu_bundle::Args),
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Bindgen { check } => bindgen::run(check),
        Task::GpuBundle(args) => gpu_bundle::run(&args),
    }
}
