//! Runs `batch_recall`, and writes valid and invalid `.npy` files.

use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The program, in cargo's target folder or in the folder of the bundle.
pub fn batch_recall() -> Command {
    crate::program("batch_recall", env!("CARGO_BIN_EXE_batch_recall"))
}

/// A file of version 1.0 with this dictionary and data.
pub fn npy(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    let text = format!("{dictionary:<117}\n");
    file.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    file.extend(text.bytes());
    file.extend(data);
    file
}

/// A dictionary in the form that NumPy writes.
pub fn dictionary(descriptor: &str, shape: &str) -> String {
    format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': {shape}, }}")
}

/// A matrix of f32.
pub fn f32s(rows: usize, columns: usize, values: &[f32]) -> Vec<u8> {
    npy(
        &dictionary("<f4", &format!("({rows}, {columns})")),
        bytemuck::cast_slice(values),
    )
}

/// A folder with `targets.npy` (4 × 2), `queries.npy` (2 × 2) and the files of a test.
pub struct Folder {
    folder: TempDir,
}

impl Folder {
    /// Target 0 points right, 1 up, 2 left, 3 right and up; query 0 points nearly right, query 1 nearly up.
    pub fn new() -> Self {
        let folder = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        folder.write(
            "targets.npy",
            &f32s(4, 2, &[1.0, 0.0, 0.0, 2.0, -3.0, 0.0, 1.0, 1.0]),
        );
        folder.write("queries.npy", &f32s(2, 2, &[0.5, 0.1, -0.01, 7.0]));
        folder
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// The full path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command for the program in this folder, with its targets and queries and k = 2.
    pub fn command(&self) -> Command {
        let mut command = batch_recall();
        command.current_dir(self.folder.path());
        command.args([
            "--targets",
            "targets.npy",
            "--queries",
            "queries.npy",
            "-k",
            "2",
        ]);
        command
    }
}
