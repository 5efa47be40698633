//! Profiles of migrations.

use std::collections::BTreeMap;
use std::sync::Arc;

use cuda_um_sys::locks::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use um_backend::profile::{Profiler, Trace};

use cuda_um_trace::{Call, Finding, Place};

use crate::backend::backend;
use crate::errors::{Kind, argument, error, without_lock};
use crate::number::Number;
use crate::outside::string;

/// A context manager that records migrations, page faults and the program's operations, and then has their report.
#[pyclass(frozen, module = "cuda_um")]
pub(crate) struct Profile {
    device: usize,
    /// A lock as in `backend`.
    state: Mutex<State>,
}

enum State {
    New,
    Running(Box<Profiler>),
    /// The block is over, and its report is being made, or could not be made.
    Over,
    Done(Arc<Done>),
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
#[pyo3(signature = (device=Number(0)), text_signature = "(device=0)")]
pub(crate) fn profile(device: Number<usize>) -> Profile {
    Profile {
        device: device.0,
        state: Mutex::new(State::New),
    }
}

/// Where arrays with the program's names were made last: the place that the library knows is one of its own. A lock as in `backend`.
static SITES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
/// A program may make names without end.
const MOST_SITES: usize = 1 << 16;

/// Notes the file and the line that made an array.
pub(crate) fn note(name: &str, site: &str) {
    let mut sites = SITES.lock();
    if sites.len() < MOST_SITES || sites.contains_key(name) {
        sites.insert(name.to_owned(), site.to_owned());
    }
}

/// A profile that is dropped within its block ends without a report.
impl Drop for Profile {
    fn drop(&mut self) {
        if let State::Running(profiler) = std::mem::replace(self.state.get_mut(), State::Over) {
            let profiler = &mut Some(profiler);
            // Without Python's lock, unless the interpreter ends.
            Python::try_attach(|py| py.detach(|| drop(profiler.take())));
            drop(profiler.take());
        }
    }
}

/// The call that a finding suggests, in Python.
fn python(finding: &Finding) -> Option<String> {
    let place = |place| match place {
        Place::Host => "\"host\"".to_owned(),
        Place::Device(device) => device.to_string(),
    };
    let call = match finding.call()? {
        Call::Prefetch { to } => format!("prefetch({})", place(to)),
        Call::SetReadMostly => "advise(\"read_mostly\")".to_owned(),
        Call::UnsetReadMostly => "advise(\"read_mostly\", unset=True)".to_owned(),
        Call::PreferLocation { at } => format!("advise(\"preferred_location\", {})", place(at)),
        // Mapped memory is a choice of the allocation.
        _ => return None,
    };
    let when = match finding.when() {
        when if when.is_empty() => when,
        when => format!("  # {when}"),
    };
    Some(format!("{}.{call}{when}", finding.variable()))
}

impl Profile {
    /// Reads the report without Python's lock.
    fn done<R: Send>(&self, py: Python<'_>, read: impl FnOnce(&Done) -> R + Send) -> PyResult<R> {
        let done = match &*self.state.lock() {
            State::Done(done) => Some(Arc::clone(done)),
            _ => None,
        };
        let done = done.ok_or_else(|| {
            argument("the report exists after the block: `with cuda_um.profile() as profile:`")
        })?;
        Ok(py.detach(|| read(&done)))
    }
}

#[pymethods]
impl Profile {
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        let is_new = matches!(*this.state.lock(), State::New);
        if !is_new {
            return Err(argument(
                "a profile is used once: call `cuda_um.profile()` again",
            ));
        }
        let backend = backend(py, this.device)?;
        let started = without_lock(py, || {
            let runtime = backend.device().runtime();
            Ok(Profiler::start(runtime)?)
        })?;
        let started = State::Running(Box::new(started));
        let before = std::mem::replace(&mut *this.state.lock(), started);
        // Usually `New`; a profiler needs the library's locks to end.
        py.detach(|| drop(before));
        Ok(slf.clone())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let profiler = {
            let mut state = self.state.lock();
            match std::mem::replace(&mut *state, State::Over) {
                State::Running(profiler) => profiler,
                other => {
                    *state = other;
                    return Ok(());
                }
            }
        };
        let backend = backend(py, self.device)?;
        let sites = SITES.lock().clone();
        let done = without_lock(py, || {
            um_dlpack::settle()?;
            let mut trace = profiler.stop()?;
            for buffer in &mut trace.buffers {
                buffer.site = sites.get(&buffer.name).cloned();
            }
            let model = backend.device().cost_model();
            let mut report = cuda_um_trace::MigrationReport::of(&trace, &model);
            for finding in &mut report.findings {
                finding.code = python(finding);
            }
            Ok(Done { trace, report })
        });
        let done = State::Done(Arc::new(done?));
        *self.state.lock() = done;
        Ok(())
    }

    /// The report as text.
    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        string(py, &self.done(py, |done| done.report.to_string())?)
    }

    /// The report as JSON.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let report = self.done(py, |done| serde_json::to_string(&done.report))?;
        let report = report.map_err(|refused| error(Kind::Device, refused.to_string()))?;
        string(py, &report)
    }

    /// The trace as JSON, which the program `um_trace` reads.
    fn trace_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        string(py, &self.done(py, |done| done.trace.to_json())?)
    }

    /// The report and the timeline as one page without links.
    fn html<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        string(
            py,
            &self.done(py, |done| cuda_um_trace::html(&done.trace, &done.report))?,
        )
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let state = match &*self.state.lock() {
            State::New => "not started",
            State::Running(_) => "running",
            State::Over => "ended without a report",
            State::Done(_) => "done",
        };
        string(
            py,
            &format!("cuda_um.Profile(device={}, {state})", self.device),
        )
    }

    fn __str__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.text(py)
    }

    fn _repr_html_<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.html(py)
    }
}
