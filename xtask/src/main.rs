//! `cargo xtask <task>`: what the workspace needs beyond `cargo build` and `cargo test`.

mod gpu_bundle;
mod wheels;
mod workspace;

use clap::Parser;

/// Tasks of the cuda-um workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Pack release tests, examples and benches into one folder that runs on a machine with a GPU and no Rust.
    GpuBundle(gpu_bundle::Args),
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::GpuBundle(args) => gpu_bundle::run(&args),
    }
}
