//! The native part of the Python package `cuda_um`.

mod allocator;
mod array;
mod backend;
mod capsule;
mod create;
mod devices;
mod dlpack;
mod dtype;
mod errors;
mod host;
mod interface;
mod methods;
mod number;
mod ops;
mod outside;
mod owner;
mod profile;
mod stream;
mod tensors;
mod weights;

#[pyo3::pymodule]
mod _cuda_um {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::owner::check_interpreter(module.py())?;
        crate::create::ndarray(module.py())?;
        crate::errors::load(module.py())
    }

    #[pymodule_export]
    use crate::allocator::{Allocator, Block};
    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::create::{array, empty, from_numpy, zeros};
    #[pymodule_export]
    use crate::devices::{
        device_count, is_simulated, memory_info, pool_stats, runtime_description, synchronize, trim,
    };
    #[pymodule_export]
    use crate::dlpack::from_dlpack;
    #[pymodule_export]
    use crate::host::HostAccess;
    #[pymodule_export]
    use crate::owner::_ends;
    #[pymodule_export]
    use crate::profile::{Profile, profile};
    #[pymodule_export]
    use crate::tensors::{_advise, _prefetch, _residency};
    #[pymodule_export]
    use crate::weights::{load_file, save_file};
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
