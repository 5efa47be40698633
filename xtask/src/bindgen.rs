//! `cargo xtask bindgen`: the bindings and the function table of cuda-um-sys.

#[path = "../../crates/cuda-um-sys/build/generate/mod.rs"]
#[allow(missing_docs, reason = "shared with a build script")]
mod generate;

pub use generate::Headers;

use crate::{wheels, workspace};
use anyhow::{Context, Result, bail};
use generate::Major;
use std::path::{Path, PathBuf};

/// The headers for the bindings, one version in each row: wheels, and the folders of the headers in them. CUDA 13 has two rows:
/// the types come from 13.0, the functions also from the newest version.
pub const HEADERS: [(Major, &[&str], &[&str]); 4] = [
    (
        Major::V11,
        &[
            "nvidia-cuda-runtime-cu11==11.8.89",
            "nvidia-cuda-nvcc-cu11==11.8.89",
        ],
        OLD_FOLDERS,
    ),
    (
        Major::V12,
        &[
            "nvidia-cuda-runtime-cu12==12.9.79",
            "nvidia-cuda-nvcc-cu12==12.9.86",
        ],
        OLD_FOLDERS,
    ),
    (
        Major::V13,
        &["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88"],
        &["nvidia/cu13/include"],
    ),
    (
        Major::V13,
        &["nvidia-cuda-runtime==13.5.37", "nvidia-cuda-crt==13.5.37"],
        &["nvidia/cu13/include"],
    ),
];
const OLD_FOLDERS: &[&str] = &["nvidia/cuda_runtime/include", "nvidia/cuda_nvcc/include"];

/// Installs the wheels of a row and returns its include folders.
pub fn headers((major, requirements, folders): (Major, &[&str], &[&str])) -> Result<Headers> {
    let site = wheels::install(requirements)?;
    Ok(Headers {
        major,
        includes: folders.iter().map(|folder| site.join(folder)).collect(),
    })
}

/// The folder of libclang, for `LIBCLANG_PATH`.
pub fn libclang() -> Result<PathBuf> {
    Ok(wheels::install(&["libclang==18.1.1"])?.join("clang/native"))
}

/// Generates the files and writes them, or compares them with the checked-in files.
pub fn run(check: bool) -> Result<()> {
    let clang = libclang()?;
    // SAFETY: no other thread runs yet; bindgen reads the variable when it first opens libclang.
    #[allow(unsafe_code, reason = "environment of this process")]
    unsafe {
        std::env::set_var("LIBCLANG_PATH", clang);
    }
    let [v11, v12, v13, newest] = HEADERS;
    let headers_13 = headers(v13)?;
    let mut items_13 = generate::read(&headers_13)?;
    let layouts = layouts(&headers_13, &items_13)?;
    generate::add_later_functions(&mut items_13, &headers(newest)?)?;
    let mut files = generate::files(
        generate::read(&headers(v11)?)?,
        generate::read(&headers(v12)?)?,
        items_13,
    )?;
    files.extend(layouts);
    let source = workspace::root().join("crates/cuda-um-sys/src");
    let mut differing = Vec::new();
    for generate::Generated { path, text } in files {
        let file = source.join(path);
        if std::fs::read_to_string(&file).is_ok_and(|checked_in| checked_in == text) {
            continue;
        }
        if check {
            differing.push(path);
        } else {
            write(&file, &text)?;
        }
    }
    if !differing.is_empty() {
        bail!(
            "not up to date with the headers: {} (run `cargo xtask bindgen`)",
            differing.join(", ")
        );
    }
    println!(
        "bindings of CUDA 11.8, 12.9 and 13.x: {}",
        if check { "as checked in" } else { "written" }
    );
    Ok(())
}

/// The layouts for the other targets, whose form the bindings take from 13.0.
fn layouts(headers: &Headers, items: &generate::Items) -> Result<Vec<generate::Generated>> {
    let libc = workspace::target().join("empty-libc");
    for header in ["ctype.h", "limits.h", "stdlib.h"] {
        write(&libc.join(header), "")?;
    }
    let each = generate::TARGETS.map(|target| generate::layout(target, &libc, headers, items));
    let all: Result<Vec<_>> = each.into_iter().collect();
    Ok(all?.into_iter().flatten().collect())
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(file.parent().context("a file has a folder")?)?;
    std::fs::write(file, text).with_context(|| file.display().to_string())
}
