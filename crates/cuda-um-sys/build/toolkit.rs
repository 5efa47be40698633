//! Finds the toolkit and generates the files of its major version. The other versions use the checked-in files.

use super::generate::{self, Generated, Headers, Items, Major};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Names the include folders: first those of the runtime, then those that it needs.
const INCLUDE: &str = "CUDA_UM_INCLUDE";

pub fn write_bindings() -> Result<()> {
    for variable in [INCLUDE, "CUDA_HOME", "CUDA_PATH", "LIBCLANG_PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=build");
    let includes = includes()?;
    let major = Major::of_headers(&includes[0])?;
    let local = generate::read(&Headers { major, includes })?;
    let of = |version: Major, name: &str| -> Result<Items> {
        let items = checked_in(name)?;
        // An older toolkit of the same major version lacks later functions: these come from the checked-in files.
        Ok(if version == major {
            items.replaced_by(&local)
        } else {
            items
        })
    };
    let files = generate::files(
        of(Major::V11, "v11")?,
        of(Major::V12, "v12")?,
        of(Major::V13, "v13")?,
    )?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    for Generated { path, text } in files {
        let file = out.join(path);
        std::fs::create_dir_all(file.parent().context("a file has a folder")?)?;
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn checked_in(name: &str) -> Result<Items> {
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bindings");
    let read = |name: &str| {
        std::fs::read_to_string(bindings.join(name)).with_context(|| format!("src/bindings/{name}"))
    };
    generate::read_back(&read("common.rs")?, &read(&format!("{name}.rs"))?)
}

/// Include folders of the toolkit: the list in `CUDA_UM_INCLUDE`, otherwise the first toolkit that has the headers.
fn includes() -> Result<Vec<PathBuf>> {
    // An empty variable counts as unset, as for the library.
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(list) = variable(INCLUDE) {
        return Ok(std::env::split_paths(&list).collect());
    }
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(variable)
        .map(PathBuf::from);
    let tried: Vec<PathBuf> = toolkits
        .chain([PathBuf::from("/usr/local/cuda")])
        .map(|dir| dir.join("include"))
        .collect();
    match tried
        .iter()
        .find(|dir| dir.join("cuda_runtime_api.h").is_file())
    {
        Some(found) => Ok(vec![found.clone()]),
        None => bail!(
            "the feature `generate` needs a CUDA toolkit, and none of {} has cuda_runtime_api.h (CUDA_UM_INCLUDE names its \
             folder); without the feature the checked-in bindings serve",
            tried
                .iter()
                .map(|dir| dir.display().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}
