//! Profiles of migrations.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use um_backend::cuda_um::profile::{Profiler, Trace};

use crate::backend::backend;
use crate::errors::{Kind, argument, error, without_lock};

/// A context manager that records migrations, page faults and the program's operations, and then has their report.
#[pyclass(frozen, module = "cuda_um")]
pub(crate) struct Profile {
    device: usize,
    state: Mutex<State>,
}

enum State {
    New,
    Running(Box<Profiler>),
    Done(Box<Done>),
}

struct Done {
    trace: Trace,
    report: cuda_um_trace::MigrationReport,
}

/// Returns a context manager that records migrations, page faults and operations of the block, on a GPU and on the simulator.
///
/// On a GPU, start the first profile before the first array: CUPTI does not report managed memory that is older than its first start. The savings
/// in the report follow the cost model of `device`.
#[pyfunction]
#[pyo3(signature = (device=0))]
pub(crate) fn profile(device: usize) -> Profile {
    Profile {
        device,
        state: Mutex::new(State::New),
    }
}

impl Profile {
    fn done<R>(&self, read: impl FnOnce(&Done) -> R) -> PyResult<R> {
        match &*self.state.lock() {
            State::Done(done) => Ok(read(done)),
            _ => Err(argument(
                "the report exists after the block: `with cuda_um.profile() as profile:`",
            )),
        }
    }
}

#[pymethods]
impl Profile {
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        if !matches!(*this.state.lock(), State::New) {
            return Err(argument(
                "a profile is used once: call `cuda_um.profile()` again",
            ));
        }
        let backend = backend(py, this.device)?;
        let started = py.detach(|| Profiler::start(backend.device().as_cuda_um().runtime()));
        let started = started.map_err(|refused| error(Kind::Device, refused.to_string()))?;
        *this.state.lock() = State::Running(Box::new(started));
        Ok(slf.clone())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let State::Running(profiler) = std::mem::replace(&mut *self.state.lock(), State::New)
        else {
            return Ok(());
        };
        let backend = backend(py, self.device)?;
        let done = without_lock(py, || {
            um_dlpack::settle()?;
            let trace = profiler.stop()?;
            let model = backend.device().as_cuda_um().cost_model();
            let report = cuda_um_trace::MigrationReport::of(&trace, &model);
            Ok(Done { trace, report })
        });
        *self.state.lock() = State::Done(Box::new(done?));
        Ok(())
    }

    /// The report as text. The advice in it is that of the Rust library; `prefetch` and `advise` are the same calls here.
    fn text(&self) -> PyResult<String> {
        self.done(|done| done.report.to_string())
    }

    /// The report as JSON.
    fn json(&self) -> PyResult<String> {
        self.done(|done| serde_json::to_string(&done.report).unwrap_or_default())
    }

    /// The trace as JSON, which the programs `um_trace` and `um_replay` read.
    fn trace_json(&self) -> PyResult<String> {
        self.done(|done| done.trace.to_json())
    }

    /// The report and the timeline as one page without links.
    fn html(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.done(|done| cuda_um_trace::html(&done.trace, &done.report)))
    }

    fn __str__(&self) -> PyResult<String> {
        self.text()
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        self.html(py)
    }
}
