//! Finds the shipped data set.

use std::path::{Path, PathBuf};

const SET: &str = "wordnet-1k";

/// The files of the shipped set.
#[derive(Clone, Debug)]
pub struct ShippedSet {
    /// The folder.
    pub folder: PathBuf,
}

impl ShippedSet {
    /// Searches in `CUDA_UM_DATA_DIR`, in `data` here, in `data` beside the executable or one folder up (the bundle), and in
    /// the source tree. If it is not found, it uses the first folder, so that reading fails there.
    pub fn find() -> Self {
        let mut places = Vec::new();
        places.extend(std::env::var_os("CUDA_UM_DATA_DIR").map(PathBuf::from));
        places.push("data".into());
        if let Some(folder) = std::env::current_exe()
            .ok()
            .as_deref()
            .and_then(Path::parent)
        {
            places.push(folder.join("data"));
            places.push(folder.join("../data"));
        }
        places.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../data"));
        let candidates: Vec<_> = places.into_iter().map(|place| place.join(SET)).collect();
        let found = candidates
            .iter()
            .position(|folder| folder.join("targets.npy").is_file());
        Self {
            folder: candidates[found.unwrap_or(0)].clone(),
        }
    }

    /// A file of the set.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// True if `path` is the set's file `name`, in any spelling.
    pub fn is(&self, path: &Path, name: &str) -> bool {
        let canonical = |path: &Path| path.canonicalize().ok();
        canonical(path).is_some_and(|path| Some(path) == canonical(&self.file(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_files_under_other_spellings() {
        let set = ShippedSet::find();
        let targets = set.file("targets.npy");
        assert!(targets.is_file(), "{}", targets.display());
        assert!(set.is(&set.folder.join("./targets.npy"), "targets.npy"));
        assert!(!set.is(&targets, "queries.npy"));
        assert!(!set.is(Path::new("nowhere.npy"), "targets.npy"));
    }
}
