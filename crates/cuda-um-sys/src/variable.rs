//! Variables of the environment, and the paths that they name.

use std::ffi::OsString;
use std::path::Path;

/// The reason why a path of a variable is not used.
pub(crate) const RELATIVE: &str =
    "a relative path is refused, because it depends on the current folder: name an absolute path";

/// The value of a variable of the environment; `None` if it is not set or empty, which means the same for every variable of this project.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// True for a relative path. A plain file name is none: the system's loader searches for it in its own folders.
pub(crate) fn depends_on_folder(path: &Path) -> bool {
    path.is_relative() && path.file_name() != Some(path.as_os_str())
}
