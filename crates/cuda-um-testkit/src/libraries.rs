//! The simulator as shared libraries, for tests of programs that open CUDA's libraries.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::sim_lib;

/// The folder with the simulator's libraries, for `LD_LIBRARY_PATH`. The package of the test has `cuda-um-sim-lib` as a dependency, so
/// that Cargo builds the library beside the test.
pub fn sim_libraries() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        let program = std::env::current_exe().expect("the system names the program");
        let beside = program.parent().expect("a program is in a folder");
        // Examples are in a folder beside that of the tests.
        let library = [beside.to_owned(), beside.join("../deps")]
            .map(|folder| folder.join("libcuda_um_sim_lib.so"))
            .into_iter()
            .find(|library| library.exists())
            .expect("Cargo builds the library of cuda-um-sim-lib beside the test");
        let folder = library.with_file_name("sim-lib");
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        let linked = sim_lib::put(&folder, sim_lib::DRIVER, |link| {
            std::os::unix::fs::symlink(&library, link)
        });
        linked
            .and_then(|()| sim_lib::complete(&folder))
            .expect("a C compiler makes the other libraries");
        folder
    });
    made.clone()
}

/// Loads the simulator's libraries into this process: later searches for CUDA's libraries find them by their names. On a GPU, does nothing.
pub fn open_sim_libraries() {
    static OPEN: OnceLock<()> = OnceLock::new();
    OPEN.get_or_init(|| {
        if crate::on_gpu() {
            return;
        }
        for name in std::iter::once(sim_lib::DRIVER).chain(sim_lib::OTHERS) {
            let path = sim_libraries().join(name).into_os_string();
            let path = CString::new(path.into_encoded_bytes()).expect("a path has no NUL");
            // SAFETY: a valid path; the libraries run no code when they are loaded. They stay loaded.
            #[allow(unsafe_code, reason = "dlopen is a C function")]
            let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
            assert!(!library.is_null(), "{path:?} is loaded");
        }
    });
}
