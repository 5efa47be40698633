//! Names the library as the driver's: programs and other libraries find it under this name once it is loaded. Lists what it exports.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// Functions of the driver that the simulator does not have: libraries look them up when they start.
const ABSENT: [&str; 7] = [
    "cuOccupancyAvailableDynamicSMemPerBlock",
    "cuOccupancyMaxActiveClusters",
    "cuOccupancyMaxPotentialBlockSizeWithFlags",
    "cuOccupancyMaxPotentialClusterSize",
    "cuImportExternalMemory",
    "cuDestroyExternalMemory",
    "cuExternalMemoryGetMappedBuffer",
];

/// Whether a word of the simulator's sources is the name of a function of CUDA, and not one of the simulator's own.
fn is_exported(word: &str) -> bool {
    let begins = ["__cuda", "cuda", "cupti", "nvml"]
        .iter()
        .any(|it| word.starts_with(it))
        || word
            .strip_prefix("cu")
            .is_some_and(|rest| rest.starts_with(char::is_uppercase));
    begins && !word.starts_with("cudaUmSim") && !word.contains(':')
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../src/entry");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    let mut names: BTreeSet<String> = ABSENT.map(String::from).into();
    for file in fs::read_dir("../src/entry").expect("the sources of cuda-um-sim") {
        let text = fs::read_to_string(file.expect("an entry").path()).expect("a source");
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            // `fn cudaMalloc(`, `= cuMemAlloc_v2`, and for nodes of graphs `cudaGraphAddHostNode HOST`.
            let name = match (pair[0], pair[1]) {
                ("fn" | "=", name) => name.split(['(', '<']).next().unwrap_or(name),
                (name, "KERNEL" | "COPY" | "SET" | "HOST" | "ALLOCATE") => name,
                _ => continue,
            };
            // Some versions have other signatures.
            let name = name.trim_end_matches("_12").trim_end_matches("_13");
            names.extend(is_exported(name).then(|| name.to_owned()));
        }
    }
    let list: Vec<String> = names.into_iter().collect();
    let exports = format!("exports! {{ {} }}\n", list.join(" "));
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("exports.rs"), exports).expect("a writable folder");
}
