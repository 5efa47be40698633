//! Calls that are not part of a capture, and may disturb one.

use super::super::core::Core;
use super::super::status::Code;
use super::super::stream::{Stream, StreamKind};
use super::super::thread::{ThreadState, this_thread};
use super::Graphs;
use super::capture::Capture;

/// `cudaStreamCaptureMode`: of a capture, and of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CaptureMode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl CaptureMode {
    pub(crate) fn from_raw(raw: u32) -> Result<CaptureMode, Code> {
        Ok(match raw {
            0 => CaptureMode::Global,
            1 => CaptureMode::ThreadLocal,
            2 => CaptureMode::Relaxed,
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

impl Graphs {
    /// Invalidates the captures that `disturbs` accepts, if there are any, and returns the error.
    pub(super) fn refuse(
        &mut self,
        code: Code,
        disturbs: impl Fn(&Capture) -> bool,
    ) -> Result<(), Code> {
        let disturbed = self.captures.iter_mut().filter(|it| disturbs(it));
        let count = disturbed.map(|it| it.is_valid = false).count();
        if count == 0 { Ok(()) } else { Err(code) }
    }

    /// Whether the legacy stream cannot be used, because a blocking stream of its device is capturing.
    pub(crate) fn has_implicit(&self, stream: &Stream) -> bool {
        let mut captures = self.captures.iter();
        stream.kind == StreamKind::Legacy && captures.any(|it| it.blocks_legacy(stream.device))
    }

    /// A call uses a stream. The legacy stream would make a blocking stream that is capturing wait.
    pub(crate) fn use_stream(&mut self, stream: &Stream) -> Result<(), Code> {
        match stream.kind {
            StreamKind::Legacy => self.refuse(Code::STREAM_CAPTURE_IMPLICIT, |capture| {
                capture.blocks_legacy(stream.device)
            }),
            _ => Ok(()),
        }
    }

    /// A call that cannot be captured uses a stream.
    pub(crate) fn use_uncaptured(&mut self, stream: &Stream) -> Result<(), Code> {
        self.use_stream(stream)?;
        self.is_capturing(stream)?;
        self.refuse(Code::STREAM_CAPTURE_UNSUPPORTED, |capture| {
            capture.has(stream.handle)
        })
    }

    /// A call waits for a device.
    pub(crate) fn use_device(&mut self, device: usize) -> Result<(), Code> {
        self.refuse(Code::STREAM_CAPTURE_UNSUPPORTED, |capture| {
            capture.is_on(device)
        })
    }
}

impl Core {
    /// A call that is "potentially unsafe" for captures, as `cudaThreadExchangeStreamCaptureMode` defines it: its effect would not be
    /// repeated with the graph.
    pub(crate) fn call_unsafe(&self) -> Result<(), Code> {
        let thread = this_thread();
        let mode = ThreadState::with(self.id, |thread| thread.capture_mode);
        let graphs = &mut self.state.lock().graphs;
        graphs.refuse(Code::STREAM_CAPTURE_UNSUPPORTED, |capture| match mode {
            CaptureMode::Relaxed => false,
            _ if capture.thread == thread => capture.mode != CaptureMode::Relaxed,
            CaptureMode::ThreadLocal => false,
            CaptureMode::Global => capture.mode == CaptureMode::Global,
        })
    }
}
