//! With the feature `generate`: generates the bindings from the CUDA toolkit of this machine. Otherwise it does nothing.

#[cfg(feature = "generate")]
#[allow(missing_docs, reason = "shared with xtask")]
mod generate;
#[cfg(feature = "generate")]
mod toolkit;

#[cfg(feature = "generate")]
fn main() -> anyhow::Result<()> {
    toolkit::write_bindings()
}

#[cfg(not(feature = "generate"))]
fn main() {
    println!("cargo::rerun-if-changed=build/main.rs");
}
