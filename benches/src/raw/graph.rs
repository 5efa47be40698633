//! Graphs.

use super::{Raw, check};
use anyhow::{Context, Result, ensure};
use cuda_um::sys;
use cuda_um_testkit::call;
use std::ptr::null_mut;
use std::rc::Rc;

/// An executable graph. The memory of its work is the caller's.
pub struct Graph {
    raw: Rc<Raw>,
    exec: sys::cudaGraphExec_t,
}

impl Raw {
    /// Captures the work that a closure enqueues, and makes an executable graph of it.
    pub fn capture(self: &Rc<Self>, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let table = &self.table;
        let begin = table
            .cudaStreamBeginCapture
            .context("cudaStreamBeginCapture")?;
        let end = table.cudaStreamEndCapture.context("cudaStreamEndCapture")?;
        let make = table
            .cudaGraphInstantiateWithFlags
            .context("cudaGraphInstantiateWithFlags")?;
        let destroy = table.cudaGraphDestroy.context("cudaGraphDestroy")?;
        let mode = sys::cudaStreamCaptureMode::cudaStreamCaptureModeThreadLocal;
        let code = call!(begin(self.stream, mode));
        check(table, "cudaStreamBeginCapture", code)?;
        let captured = work();
        let (mut graph, mut exec) = (null_mut(), null_mut());
        let code = call!(end(self.stream, &mut graph));
        captured?;
        check(table, "cudaStreamEndCapture", code)?;
        let code = call!(make(&mut exec, graph, 0));
        check(table, "cudaGraphInstantiateWithFlags", code)?;
        let code = call!(destroy(graph));
        check(table, "cudaGraphDestroy", code)?;
        let raw = Rc::clone(self);
        Ok(Graph { raw, exec })
    }
}

impl Graph {
    /// `cudaGraphLaunch`, on the stream.
    pub fn launch(&self) -> Result<()> {
        let launch = self.raw.table.cudaGraphLaunch.context("cudaGraphLaunch")?;
        self.raw.busy.set(true);
        let code = call!(launch(self.exec, self.raw.stream));
        ensure!(
            code == sys::cudaError::cudaSuccess,
            "cudaGraphLaunch: {}",
            code.0
        );
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.raw.synchronize();
        if let Some(destroy) = self.raw.table.cudaGraphExecDestroy {
            call!(destroy(self.exec));
        }
    }
}
