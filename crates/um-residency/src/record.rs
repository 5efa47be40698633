//! Recording of a pass.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cuda_um_plan::{BufferSpec, Program, Repeat, Step};
use um_backend::cuda_um::{DeviceBuffer, Event, Stream, fork};

use crate::arena::Arena;
use crate::entries::Id;
use crate::error::{Error, Result};
use crate::pass::{Clock, Kind, Pass, Recorder};
use crate::state::Shared;
use crate::stats::LoggedChange;
use crate::thread::this_thread;

impl Arena {
    /// Runs a pass, and records its working sets, with the time of each on the stream: from the end of its transfers to the next set. Sets of
    /// other threads are not part of the pass.
    ///
    /// The program is cyclic, as for a loop of passes; set [`Program::repeat`] for a single one.
    ///
    /// # Ordering
    /// Waits for the work of the pass.
    ///
    /// # Errors
    /// [`Error::PassActive`] within another pass, [`Error::Plan`] for a pass that no plan can have (a buffer without bytes, for example),
    /// [`Error::UnknownBuffer`] if the pass drops a buffer that it used, [`RuntimeMismatch`](um_backend::cuda_um::Error::RuntimeMismatch) for a stream of
    /// another runtime, and errors of CUDA. The result of `pass` is then lost.
    pub fn record<R>(&self, stream: &Stream, pass: impl FnOnce() -> R) -> Result<(R, Program)> {
        self.shared.check_stream(stream)?;
        let clock = Clock::new(stream)?;
        let recorder = Kind::Recorded(Recorder::default());
        let active = Active::enter(&self.shared, "record")?;
        active.begin(recorder, Some(clock));
        let result = pass();
        let Some(Pass {
            kind: Kind::Recorded(recorder),
            clock: Some(clock),
            ..
        }) = active.end("record")?
        else {
            return Err(Error::PassActive { call: "record" });
        };
        let times = clock.computing(&Event::timed(stream)?)?;
        let state = self.shared.state.lock();
        let buffer = |id: &Id| {
            let entry = state.entries.get(*id);
            let entry = entry.ok_or_else(|| Error::UnknownBuffer {
                name: "that was dropped within the pass".to_owned(),
                bytes: 0,
                found: 0,
            })?;
            let name = entry.name.to_string();
            let mut spec = BufferSpec::new(name, entry.bytes as u64, entry.role);
            (spec.in_place, spec.in_file) = (entry.read_once, entry.in_file);
            Ok(spec)
        };
        let steps = recorder.steps.into_iter().zip(times).enumerate();
        let program = Program::new(
            recorder.buffers.iter().map(buffer).collect::<Result<_>>()?,
            steps
                .map(|(step, (uses, time))| {
                    Step::new(format!("step {step}"), uses, time.as_secs_f64())
                })
                .collect(),
            Repeat::Cyclic,
        );
        drop(state);
        program.check()?;
        Ok((result, program))
    }
}

impl Clock {
    pub(crate) fn new(stream: &Stream) -> Result<Self> {
        Ok(Self {
            probe: DeviceBuffer::zeroed(&stream.device(), 1)?,
            begins: None,
            steps: Vec::new(),
        })
    }

    /// The time of each step without its transfers.
    pub(crate) fn computing(&self, end: &Event) -> Result<Vec<Duration>> {
        let ends = self.steps.iter().skip(1).map(|step| &step.begins);
        let times = self.steps.iter().zip(ends.chain([end]));
        let times = times.map(|(step, end)| end.elapsed_since(&step.ready));
        Ok(times.collect::<um_backend::cuda_um::Result<_>>()?)
    }

    /// The wait of each step for its transfers.
    pub(crate) fn stalls(&self) -> Result<Vec<Duration>> {
        let steps = self.steps.iter();
        let times = steps.map(|step| step.ready.elapsed_since(&step.begins));
        Ok(times.collect::<um_backend::cuda_um::Result<_>>()?)
    }
}

/// The pass of this thread, which ends with this value.
pub(crate) struct Active<'a> {
    shared: &'a Shared,
}

impl<'a> Active<'a> {
    pub(crate) fn enter(shared: &'a Shared, call: &'static str) -> Result<Self> {
        shared.check_process(call)?;
        // Relaxed: the end of a pass stores `false` under the lock of the pass, so who reads it locks later. A thread in a pass sees its own store, and
        // the working sets of other threads are not of the pass.
        if shared.has_pass.swap(true, Ordering::Relaxed) {
            return Err(Error::PassActive { call });
        }
        Ok(Self { shared })
    }

    /// From here on, the working sets of this thread are those of the pass.
    pub(crate) fn begin(&self, kind: Kind, clock: Option<Clock>) {
        let thread = this_thread();
        let mut state = self.shared.state.lock();
        state.pass = Some(Box::new(Pass {
            thread,
            kind,
            clock,
        }));
        state.counters.log = Some(Vec::new());
        state.counters.step = 0;
    }

    /// Ends the pass. Other ones are refused until this value is dropped.
    pub(crate) fn end(&self, call: &'static str) -> Result<Option<Pass>> {
        // The pass itself may have forked.
        self.shared.check_process(call)?;
        Ok(self.shared.state.lock().pass.take().map(|pass| *pass))
    }

    /// The changes of the arena since `begin`.
    pub(crate) fn log(&self) -> Vec<LoggedChange> {
        let mut state = self.shared.state.lock();
        state.counters.log.take().unwrap_or_default()
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        let mut state = self.shared.state.lock();
        let pass = state.pass.take();
        state.counters.log = None;
        self.shared.has_pass.store(false, Ordering::Relaxed);
        drop(state);
        drop(pass);
    }
}
