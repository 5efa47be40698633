//! Runs bindgen over one version's headers.

use super::major::Major;
use super::spec::{Covered, UNTYPED};
use anyhow::{Context, Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The headers of one CUDA version.
pub struct Headers {
    #[allow(dead_code, reason = "used only by the callers")]
    pub major: Major,
    /// Include folders: first those of the runtime, then those that it needs.
    pub includes: Vec<PathBuf>,
}

/// Parses the headers into Rust items: the items of `covered` and the types that they need.
pub fn parse(headers: &Headers, covered: &Covered) -> Result<syn::File> {
    bindgen_over(headers, covered, |builder| builder)
}

/// The same for another target, with a test of the layout of each type. `libc` is a folder with the headers of this target's C library
/// that CUDA's include; CUDA uses nothing of them, so they may be empty.
#[allow(dead_code, reason = "used only by xtask")]
pub fn parse_for(
    target: &str,
    libc: &Path,
    headers: &Headers,
    covered: &Covered,
) -> Result<syn::File> {
    bindgen_over(headers, covered, |builder| {
        builder
            .layout_tests(true)
            .clang_arg(format!("--target={target}"))
            .clang_args(["-w", "-ffreestanding", "-nostdlibinc", "-idirafter"])
            .clang_arg(libc.display().to_string())
    })
}

fn bindgen_over(
    headers: &Headers,
    covered: &Covered,
    options: impl FnOnce(bindgen::Builder) -> bindgen::Builder,
) -> Result<syn::File> {
    let runtime = headers
        .includes
        .first()
        .context("no include folder given")?;
    for header in ["cuda_runtime_api.h", "cuda.h"] {
        if !runtime.join(header).is_file() {
            bail!("{} has no {header}", runtime.display());
        }
    }
    let mut builder = bindgen::Builder::default()
        .header_contents(
            "cuda_um.h",
            "#include <cuda_runtime_api.h>\n#include <cuda.h>\n",
        )
        // No comments: NVIDIA's documentation has its own licence, and is long.
        .generate_comments(false)
        // The crate's own tests check the layouts, against a C compiler.
        .layout_tests(false)
        // An unknown value from a newer driver must not be undefined behaviour: never a Rust enum.
        .default_enum_style(bindgen::EnumVariation::NewType {
            is_bitfield: false,
            is_global: false,
        })
        .derive_default(true)
        .use_core()
        .ctypes_prefix("::core::ffi")
        .rust_target(
            bindgen::RustTarget::stable(85, 0)
                .map_err(|_| anyhow!("bindgen does not know Rust 1.85"))?,
        )
        .rust_edition(bindgen::RustEdition::Edition2024)
        .formatter(bindgen::Formatter::None);
    for include in &headers.includes {
        builder = builder
            .clang_arg("-I")
            .clang_arg(include.display().to_string());
    }
    if let Some(include) = compiler_include() {
        // This comes last, so that gcc's headers are used only if libclang has no own headers (as in the wheel of pip).
        builder = builder.clang_arg("-idirafter").clang_arg(include);
    }
    for function in &covered.functions {
        builder = builder.allowlist_function(format!("^{function}$"));
    }
    for ty in &covered.types {
        builder = builder.allowlist_type(format!("^{ty}$"));
    }
    for ty in UNTYPED {
        builder = builder.blocklist_type(format!("^{ty}$"));
    }
    builder = builder.raw_line("pub type cudaGraphNodeParams = ::core::ffi::c_void;");
    for var in &covered.constants {
        builder = builder.allowlist_var(format!("^{var}$"));
    }
    let bindings = options(builder)
        .generate()
        .with_context(|| format!("bindgen failed over the headers in {}", runtime.display()))?;
    syn::parse_file(&bindings.to_string()).context("the output of bindgen is not Rust")
}

/// The folder of the C compiler that contains `stddef.h` and similar headers.
fn compiler_include() -> Option<String> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "gcc".into());
    let output = Command::new(compiler)
        .arg("-print-file-name=include")
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    Path::new(path.trim())
        .is_dir()
        .then(|| path.trim().to_owned())
}
