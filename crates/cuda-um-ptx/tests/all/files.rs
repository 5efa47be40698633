//! Every PTX file of the repository loads.

use std::path::{Path, PathBuf};

use cuda_um_ptx::{Device, LoadError, Module};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            found.push(path);
        }
    }
}

#[test]
fn all_kernels_of_the_repository_load_but_those_for_tma() {
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    files(&root, &mut found);
    assert!(found.len() >= 15, "{found:?}");
    let (mut loaded, mut refused) = (0, Vec::new());
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let module =
            Module::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for kernel in module.kernels() {
            match kernel.load(&Device::default()) {
                Ok(_) => loaded += 1,
                Err(LoadError::Unsupported { what, .. }) => {
                    refused.push((path.file_name().unwrap().to_owned(), what))
                }
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }
    assert!(loaded >= 80, "{loaded}");
    for (file, what) in refused {
        let known = [
            "wgmma",
            "tcgen05",
            "bulk",
            "expect_tx",
            "cudaGraphSetConditional",
        ];
        let known = known.iter().any(|name| what.contains(name));
        assert!(known, "{file:?}: {what}");
    }
}
