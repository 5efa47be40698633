//! The output of programs.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

/// Does the same as `print!`, without a panic: output to a closed pipe (`| head`) is dropped, and another failure ends the program with one line.
pub fn show(text: Arguments<'_>) {
    let mut output = stdout().lock();
    match output.write_fmt(text).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("standard output: {error}");
            std::process::exit(1);
        }
        _ => {}
    }
}

/// Does the same as `println!`, without a panic: see [`show`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::show(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// A file for the results of a program. Open it before the work: results that cannot be written are lost.
pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens the file. Its contents stay until [`write`](Self::write).
    pub fn open(path: &Path) -> Result<Self, String> {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let path = path.to_owned();
        Ok(Self { path, file })
    }

    /// Writes the text in place of the contents.
    pub fn write(mut self, text: &str) -> Result<(), String> {
        let mut write = || {
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(text.as_bytes())
        };
        write().map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}
