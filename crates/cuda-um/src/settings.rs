//! A warning for environment variables that nothing reads, because their names are misspelt.

use crate::telemetry;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The variables that the crates of this workspace read.
const KNOWN: [&str; 11] = [
    "CUDA_UM_COST_MODEL",
    "CUDA_UM_CUDART",
    "CUDA_UM_CUPTI",
    "CUDA_UM_MPI",
    "CUDA_UM_NCCL",
    "CUDA_UM_POOLS",
    "CUDA_UM_RUNTIME",
    "CUDA_UM_SIM_CUDA",
    "CUDA_UM_SIM_DEVICES",
    "CUDA_UM_SIM_GPU",
    "CUDA_UM_SIM_KERNELS",
];

/// What the names of variables for tests and tools of this workspace begin with.
const OWN: [&str; 10] = [
    "BIN_DIR",
    "DATA_DIR",
    "FAULT_",
    "INCLUDE",
    "MODEL_",
    "PEERS_DIR",
    "SIM_CHILD",
    "SIM_CRASH",
    "STRESS_",
    "TEST_",
];

/// Warns once in each process of variables that begin with `CUDA_UM_` and that nothing reads: with an event, or on standard error if there
/// is no subscriber.
pub(crate) fn warn_of_unknown() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    // Relaxed: only one call finds false, and nothing else depends on it.
    if WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    for (name, _) in std::env::vars_os() {
        if let Some(warning) = warning(&name) {
            match telemetry::has_subscriber() {
                true => telemetry::warn!("{warning}"),
                false => eprintln!("cuda-um: {warning}"),
            }
        }
    }
}

fn warning(name: &OsStr) -> Option<String> {
    let name = name.to_string_lossy();
    let rest = name.strip_prefix("CUDA_UM_")?;
    if KNOWN.contains(&&*name) || OWN.iter().any(|own| rest.starts_with(own)) {
        return None;
    }
    let nearest = KNOWN.iter().min_by_key(|known| distance(&name, known));
    let nearest = nearest.filter(|known| distance(&name, known) <= 3);
    Some(match nearest {
        Some(known) => format!("the environment variable {name} is not read: is {known} meant?"),
        None => format!(
            "the environment variable {name} is not read: the names are {}",
            KNOWN.join(", ")
        ),
    })
}

/// The number of letters to insert, to remove or to replace.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, with) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != with);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn misspelt_names_are_told_with_the_nearest() {
        let warning = |name| warning(OsStr::new(name));
        for (misspelt, meant) in [
            ("CUDA_UM_RUNTIM", "CUDA_UM_RUNTIME"),
            ("CUDA_UM_SIM_GPUS", "CUDA_UM_SIM_GPU"),
            ("CUDA_UM_SIM_DEVICE", "CUDA_UM_SIM_DEVICES"),
            ("CUDA_UM_COSTMODEL", "CUDA_UM_COST_MODEL"),
        ] {
            assert_eq!(
                warning(misspelt).unwrap(),
                format!("the environment variable {misspelt} is not read: is {meant} meant?")
            );
        }
        let unlike = warning("CUDA_UM_SOMETHING_ELSE").unwrap();
        assert!(
            unlike.ends_with("CUDA_UM_SIM_GPU, CUDA_UM_SIM_KERNELS"),
            "{unlike}"
        );
        for known in KNOWN
            .iter()
            .chain(&["CUDA_UM_TEST_RUNTIME", "CUDA_HOME", "PATH"])
        {
            assert_eq!(warning(known), None);
        }
    }

    /// Each variable that a source of the workspace names in a string is known.
    #[test]
    fn every_variable_is_known() {
        fn names(folder: &Path, found: &mut BTreeSet<String>) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    names(&path, found);
                } else if path.extension().is_some_and(|end| end == "rs")
                    && !path.ends_with("settings.rs")
                {
                    let text = std::fs::read_to_string(path).unwrap();
                    for rest in text.split("\"CUDA_UM_").skip(1) {
                        let letter = |letter: char| letter.is_ascii_uppercase() || letter == '_';
                        let (name, _) =
                            rest.split_at(rest.find(|c| !letter(c)).unwrap_or(rest.len()));
                        found.insert(format!("CUDA_UM_{name}"));
                    }
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        if !root.join("SECURITY.md").exists() {
            // A packaged crate does not have the other crates.
            return println!("not checked: the sources are not here");
        }
        let mut found = BTreeSet::new();
        for folder in [
            "crates",
            "kernels",
            "examples",
            "benches",
            "conformance",
            "xtask",
        ] {
            names(&root.join(folder), &mut found);
        }
        assert!(found.len() > KNOWN.len(), "{found:?}");
        for known in KNOWN {
            assert!(found.remove(known), "nothing reads {known}");
        }
        let unknown: Vec<_> = found
            .iter()
            .filter(|name| warning(OsStr::new(name)).is_some())
            .collect();
        assert_eq!(unknown, ["CUDA_UM_SIM_"]);
    }
}
