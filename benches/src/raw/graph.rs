//! Graphs.

use super::Raw;
use anyhow::Result;
use cuda_um::sys::cudaStreamCaptureMode as Mode;
use cuda_um_testkit::call::Calls;
use std::rc::Rc;

/// An executable graph. The memory of its work is the caller's.
pub struct Graph {
    raw: Rc<Raw>,
    exec: usize,
}

impl Raw {
    /// Captures the work that a closure enqueues, and makes an executable graph of it.
    pub fn capture(self: &Rc<Self>, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let (table, mode) = (&self.table, Mode::cudaStreamCaptureModeThreadLocal.0);
        table.begin_capture(self.stream, mode)?;
        let captured = work();
        let graph = table.end_capture(self.stream);
        captured?;
        let exec = table.instantiate(graph?);
        table.graph_destroy(graph?)?;
        let (raw, exec) = (Rc::clone(self), exec?);
        Ok(Graph { raw, exec })
    }
}

impl Graph {
    /// `cudaGraphLaunch`, on the stream.
    pub fn launch(&self) -> Result<()> {
        self.raw.busy.set(true);
        Ok(self.raw.table.graph_launch(self.exec, self.raw.stream)?)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.raw.synchronize();
        let _ = self.raw.table.exec_destroy(self.exec);
    }
}
