//! The choice of the CUDA runtime: a real one, or the simulator.

#[cfg(feature = "sim")]
mod simulated;

use cuda_um::Runtime;
use cuda_um::fork::{self, PerProcess};
#[cfg(feature = "sim")]
use cuda_um_sim::Sim;
use cuda_um_sys::locks::Mutex;
use std::sync::Arc;

use crate::error::{CudaError, Result, invalid, one_line};
use crate::settings;
#[cfg(feature = "sim")]
use simulated::Simulated;

#[cfg(not(feature = "sim"))]
pub(crate) type Simulated = std::convert::Infallible;

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

#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) runtime: Runtime,
    pub(crate) sim: Option<Arc<Simulated>>,
    /// The reason for this runtime, if `auto` selected the simulator.
    why: Option<String>,
}

impl Opened {
    fn real(runtime: Runtime) -> Self {
        Self {
            runtime,
            sim: None,
            why: None,
        }
    }

    #[cfg(feature = "sim")]
    fn simulated(sim: Arc<Simulated>) -> Self {
        Self {
            sim: Some(Arc::clone(&sim)),
            ..Self::real(sim.runtime.clone())
        }
    }

    pub(crate) fn describe(&self, device: &cuda_um::Device) -> String {
        let version = self.runtime.version();
        let (major, minor, name) = (version.major, version.minor, device.name());
        let simulated = ["", "simulator playing "][usize::from(self.sim.is_some())];
        let why = self.why.as_ref().map(|why| format!(" ({why})"));
        let why = why.unwrap_or_default();
        format!("{simulated}CUDA {major}.{minor} on {name}{why}")
    }
}

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
        RuntimeChoice::Given(runtime) => Ok(Opened {
            #[cfg(feature = "sim")]
            sim: Simulated::find(&runtime),
            ..Opened::real(runtime)
        }),
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
        _ => Err(invalid(VARIABLE, value, "it is cuda, sim or auto")),
    }
}

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
    Ok(shared.get().lock().get_or_insert(made).clone())
}

fn cuda() -> Result<Opened> {
    static SHARED: Shared = PerProcess::new(Mutex::default);
    shared(&SHARED, || {
        let runtime = Runtime::open()?;
        runtime.device_count()?;
        Ok(Opened::real(runtime))
    })
}

#[cfg(feature = "sim")]
fn simulator() -> Result<Opened> {
    static SHARED: Shared = PerProcess::new(Mutex::default);
    shared(&SHARED, || {
        let sim = Sim::from_env().map_err(|error| CudaError::Other(Box::new(error)))?;
        Ok(Opened::simulated(Simulated::open(sim)?))
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
