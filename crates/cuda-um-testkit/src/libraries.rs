//! The simulator as shared libraries, for tests of programs that open CUDA's libraries.

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
