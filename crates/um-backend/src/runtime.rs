//! The choice of the CUDA runtime: a real one, or the simulator.

#[cfg(feature = "sim")]
mod simulated;

use cuda_um::Runtime;
use cuda_um::fork::{self, PerProcess};
#[cfg(feature = "sim")]
use cuda_um_sim::Sim;
use cuda_um_sys::locks::Mutex;
#[cfg(feature = "sim")]
use std::sync::Arc;

#[cfg(feature = "sim")]
use crate::error::of_simulator;
use crate::error::{CudaError, Result, one_line};
use crate::settings;
#[cfg(feature = "sim")]
use simulated::Simulated;

/// The variable that [`RuntimeChoice::Environment`] reads.
const VARIABLE: &str = "CUDA_UM_RUNTIME";

/// The CUDA runtime to use.
///
/// `Cuda` and `Sim` each open one runtime per process, so that buffers of different backends can be copied on the device;
/// `Environment` and `Auto` select one of them. Every choice fails with [`CudaError::Forked`] in a child made by `fork` of a process
/// that has opened a runtime.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum RuntimeChoice {
    /// The value of `CUDA_UM_RUNTIME`: `cuda`, `sim` or `auto`. If it is unset or empty, `auto` with the feature `sim`, and `cuda`
    /// without it.
    #[default]
    Environment,
    /// The libcudart of this machine (`CUDA_UM_CUDART`, then the usual names and paths). Fails if there is no GPU.
    Cuda,
    /// The simulator, as `CUDA_UM_SIM_GPU`, `CUDA_UM_SIM_CUDA` and `CUDA_UM_SIM_DEVICES` describe it.
    Sim,
    /// The GPU if there is one, otherwise the simulator:
    /// [`CudaBackend::runtime_description`](crate::CudaBackend::runtime_description) has the choice and the reason.
    Auto,
    /// An open runtime.
    Given(Runtime),
    /// The given simulator. All backends over one simulator share a runtime.
    #[cfg(feature = "sim")]
    Simulator(Sim),
}

/// A runtime and its source.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) runtime: Runtime,
    #[cfg(feature = "sim")]
    pub(crate) sim: Option<Arc<Simulated>>,
    /// The reason for this runtime, if `auto` selected the simulator.
    why: Option<String>,
}

impl Opened {
    fn real(runtime: Runtime) -> Self {
        Self {
            runtime,
            #[cfg(feature = "sim")]
            sim: None,
            why: None,
        }
    }

    #[cfg(feature = "sim")]
    fn simulated(sim: Arc<Simulated>) -> Self {
        Self {
            runtime: sim.runtime.clone(),
            sim: Some(sim),
            why: None,
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        #[cfg(feature = "sim")]
        return self.sim.is_some();
        #[cfg(not(feature = "sim"))]
        return false;
    }

    /// One line, for a device of this runtime.
    pub(crate) fn describe(&self, device: &cuda_um::Device) -> String {
        let version = self.runtime.version();
        let what = format!(
            "CUDA {}.{} on {}",
            version.major,
            version.minor,
            device.name()
        );
        let simulated = if self.is_simulated() {
            "simulator playing "
        } else {
            ""
        };
        let why = self
            .why
            .as_ref()
            .map(|why| format!(" ({why})"))
            .unwrap_or_default();
        format!("{simulated}{what}{why}")
    }
}

/// Opens a runtime.
pub(crate) fn open(choice: RuntimeChoice) -> Result<Opened> {
    fork::check("opening a runtime")?;
    settings::check()?;
    open_here(choice)
}

fn open_here(choice: RuntimeChoice) -> Result<Opened> {
    match choice {
        RuntimeChoice::Environment => {
            open_here(from_environment(std::env::var_os(VARIABLE).as_deref())?)
        }
        RuntimeChoice::Cuda => cuda(),
        RuntimeChoice::Sim => simulator(),
        RuntimeChoice::Auto => auto(),
        #[cfg(feature = "sim")]
        RuntimeChoice::Given(runtime) => {
            let sim = Simulated::find(&runtime);
            let opened = Opened::real(runtime);
            Ok(Opened { sim, ..opened })
        }
        #[cfg(not(feature = "sim"))]
        RuntimeChoice::Given(runtime) => Ok(Opened::real(runtime)),
        #[cfg(feature = "sim")]
        RuntimeChoice::Simulator(sim) => Ok(Opened::simulated(Simulated::open(sim)?)),
    }
}

fn from_environment(value: Option<&std::ffi::OsStr>) -> Result<RuntimeChoice> {
    let value = value
        .map(|value| value.to_string_lossy())
        .unwrap_or_default();
    match value.as_ref() {
        "" if cfg!(feature = "sim") => Ok(RuntimeChoice::Auto),
        "" | "cuda" => Ok(RuntimeChoice::Cuda),
        "sim" => Ok(RuntimeChoice::Sim),
        "auto" => Ok(RuntimeChoice::Auto),
        _ => Err(CudaError::InvalidArgument {
            what: VARIABLE,
            value: value.into_owned(),
            reason: "it is cuda, sim or auto".to_owned(),
        }),
    }
}

/// A runtime that all backends of the process share.
type Shared = PerProcess<Mutex<Option<Opened>>>;

/// The shared runtime, which is opened by the first call. A failure is not kept: a later call tries again.
///
/// It is opened without the lock, because a subscriber of `tracing` may open a backend meanwhile. If two threads open one each, the first
/// is kept.
fn shared(shared: &Shared, make: impl FnOnce() -> Result<Opened>) -> Result<Opened> {
    let known = shared.get().lock().clone();
    if let Some(opened) = known {
        return Ok(opened);
    }
    let made = make()?;
    let kept = shared
        .get()
        .lock()
        .get_or_insert_with(|| made.clone())
        .clone();
    Ok(kept)
}

/// The process's libcudart.
fn cuda() -> Result<Opened> {
    static SHARED: Shared = PerProcess::new(Mutex::default);
    shared(&SHARED, || {
        let runtime = Runtime::open()?;
        runtime.device_count()?;
        Ok(Opened::real(runtime))
    })
}

/// The process's simulator.
#[cfg(feature = "sim")]
fn simulator() -> Result<Opened> {
    static SHARED: Shared = PerProcess::new(Mutex::default);
    shared(&SHARED, || {
        Ok(Opened::simulated(Simulated::open(
            Sim::from_env().map_err(of_simulator)?,
        )?))
    })
}

#[cfg(not(feature = "sim"))]
fn simulator() -> Result<Opened> {
    Err(CudaError::NotSupported {
        what: "the simulator".into(),
        needs: "um-backend with the feature `sim`".into(),
        have: "a build without it".into(),
    })
}

fn auto() -> Result<Opened> {
    let none = match cuda() {
        Ok(opened) => return Ok(opened),
        Err(none) => none,
    };
    if !cfg!(feature = "sim") {
        return Err(none);
    }
    let opened = simulator()?;
    Ok(Opened {
        why: Some(one_line(&none)),
        ..opened
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn the_environment_chooses() {
        let choose = |value: &str| from_environment(Some(OsStr::new(value)));
        assert!(matches!(choose("cuda"), Ok(RuntimeChoice::Cuda)));
        assert!(matches!(choose("sim"), Ok(RuntimeChoice::Sim)));
        assert!(matches!(choose("auto"), Ok(RuntimeChoice::Auto)));
        assert!(
            matches!(choose(""), Ok(RuntimeChoice::Auto)),
            "auto is the default with the feature `sim`"
        );
        assert!(matches!(from_environment(None), Ok(RuntimeChoice::Auto)));
        let error = choose("gpu").unwrap_err();
        assert_eq!(
            error.to_string(),
            "CUDA_UM_RUNTIME cannot be gpu: it is cuda, sim or auto"
        );
    }
}
