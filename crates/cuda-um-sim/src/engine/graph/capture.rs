//! Stream capture.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::operation::Operation;
use super::super::state::State;
use super::super::status::Code;
use super::super::stream::{Stream, StreamKind};
use super::super::thread::this_thread;
use super::mode::CaptureMode;
use super::{Graphs, Node};

/// A capture sequence.
pub(super) struct Capture {
    id: u64,
    pub(super) mode: CaptureMode,
    pub(super) thread: u64,
    origin: usize,
    pub(super) is_valid: bool,
    pub(super) graph: usize,
    pub(super) nodes: Vec<Node>,
    branches: HashMap<usize, Branch>,
}

/// A stream in a capture.
struct Branch {
    device: usize,
    is_blocking: bool,
    /// The nodes that the next node comes after. Programs hold the address of this list until the stream's next call.
    after: Vec<usize>,
    /// The data of the edges from them, which they hold, too: no edge has any.
    edges: Vec<u64>,
}

/// The answer of `cudaStreamGetCaptureInfo`.
#[derive(Default)]
pub(crate) struct CaptureInfo {
    /// `cudaStreamCaptureStatus`.
    pub(crate) status: u32,
    pub(crate) id: u64,
    pub(crate) graph: usize,
    /// Address and length of the list of nodes.
    pub(crate) after: (usize, usize),
    /// Address of the data of the edges from these.
    pub(crate) edges: usize,
}

impl Capture {
    pub(super) fn has(&self, stream: usize) -> bool {
        self.branches.contains_key(&stream)
    }

    pub(super) fn is_on(&self, device: usize) -> bool {
        let mut branches = self.branches.values();
        branches.any(|branch| branch.device == device)
    }

    pub(super) fn blocks_legacy(&self, device: usize) -> bool {
        let mut branches = self.branches.values();
        branches.any(|branch| branch.is_blocking && branch.device == device)
    }

    /// The stream comes after these nodes only.
    pub(super) fn come_after(&mut self, stream: &Stream, nodes: &[usize]) {
        if let Some(branch) = self.branches.get_mut(&stream.handle) {
            branch.after = nodes.to_vec();
        }
    }

    /// The stream comes after these nodes, too; it joins the capture if it is not part of it.
    fn join(&mut self, stream: &Stream, nodes: &[usize]) {
        let branch = self.branches.entry(stream.handle).or_insert(Branch {
            device: stream.device,
            is_blocking: stream.kind == StreamKind::Blocking,
            after: Vec::new(),
            edges: Vec::new(),
        });
        for node in nodes {
            if !branch.after.contains(node) {
                branch.after.push(*node);
            }
        }
    }

    /// Whether the stream of origin comes after all that the other streams did.
    fn is_joined(&self) -> bool {
        let mut reached: HashSet<usize> = HashSet::new();
        reached.extend(&self.branches[&self.origin].after);
        for node in self.nodes.iter().rev() {
            if reached.contains(&node.handle) {
                reached.extend(&node.after);
            }
        }
        let ends = self.branches.values().flat_map(|branch| &branch.after);
        ends.into_iter().all(|node| reached.contains(node))
    }
}

impl Graphs {
    pub(super) fn capture_of(&self, stream: &Stream) -> Option<&Capture> {
        self.captures.iter().find(|it| it.has(stream.handle))
    }

    /// Whether work on a stream is captured.
    pub(crate) fn is_capturing(&self, stream: &Stream) -> Result<bool, Code> {
        match self.capture_of(stream) {
            Some(capture) if !capture.is_valid => Err(Code::STREAM_CAPTURE_INVALIDATED),
            capture => Ok(capture.is_some()),
        }
    }

    /// The state of a stream's capture.
    pub(crate) fn info(&mut self, stream: &Stream) -> CaptureInfo {
        let mut captures = self.captures.iter_mut();
        let Some(capture) = captures.find(|it| it.has(stream.handle)) else {
            return CaptureInfo::default();
        };
        let Some(Branch { after, edges, .. }) = capture.branches.get_mut(&stream.handle) else {
            return CaptureInfo::default();
        };
        edges.resize(after.len(), 0);
        CaptureInfo {
            status: if capture.is_valid { 1 } else { 2 },
            id: capture.id,
            graph: capture.graph,
            after: (after.as_ptr() as usize, after.len()),
            edges: edges.as_ptr() as usize,
        }
    }

    /// A stream may be destroyed in a capture that it has joined.
    pub(crate) fn use_destroyed(&mut self, stream: &Stream) -> Result<(), Code> {
        match self.capture_of(stream) {
            Some(capture) if capture.origin != stream.handle => Ok(()),
            _ => self.use_uncaptured(stream),
        }
    }

    pub(crate) fn begin(&mut self, stream: &Stream, mode: CaptureMode) -> Result<(), Code> {
        if stream.kind == StreamKind::Legacy {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.capture_of(stream).is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        let mut capture = Capture {
            id: self.handles.fresh() as u64,
            mode,
            thread: this_thread(),
            origin: stream.handle,
            is_valid: true,
            graph: self.handles.fresh(),
            nodes: Vec::new(),
            branches: HashMap::new(),
        };
        capture.join(stream, &[]);
        self.captures.push(capture);
        Ok(())
    }

    /// Captures an operation on a stream that is capturing.
    pub(in crate::engine) fn add_node(&mut self, stream: &Stream, operation: Operation) {
        let handle = self.handles.fresh();
        let mut captures = self.captures.iter_mut();
        if let Some(capture) = captures.find(|it| it.has(stream.handle))
            && let Some(branch) = capture.branches.get_mut(&stream.handle)
        {
            capture.nodes.push(Node {
                handle,
                origin: 0,
                device: stream.device,
                operation,
                after: std::mem::replace(&mut branch.after, vec![handle]),
            });
        }
    }
}

impl State {
    /// Ends a capture; returns its graph.
    pub(crate) fn end_capture(&mut self, stream: &Stream) -> Result<usize, Code> {
        let mut captures = self.graphs.captures.iter();
        let at = captures.position(|it| it.has(stream.handle));
        let at = at.ok_or(Code::ILLEGAL_STATE)?;
        let capture = &self.graphs.captures[at];
        if capture.origin != stream.handle {
            return Err(Code::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != this_thread() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let capture = self.graphs.captures.swap_remove(at);
        self.now += self.machine.cost.graph_capture;
        let (is_joined, is_valid) = (capture.is_joined(), capture.is_valid);
        if is_valid && is_joined {
            self.graphs.graphs.insert(capture.graph, capture.nodes);
            return Ok(capture.graph);
        }
        self.graphs.remove_bodies(&capture.nodes);
        drop(capture);
        self.free_graph_memory();
        Err(match is_valid {
            true => Code::STREAM_CAPTURE_UNJOINED,
            false => Code::STREAM_CAPTURE_INVALIDATED,
        })
    }

    /// Captures that an event is recorded on a stream, which is capturing. An external event is a node.
    pub(crate) fn capture_record(&mut self, stream: &Stream, event: usize, external: bool) {
        if external {
            self.graphs.add_node(stream, Operation::Record(event));
        } else if let Some(capture) = self.graphs.capture_of(stream) {
            let nodes = capture.branches[&stream.handle].after.clone();
            self.events.capture(event, capture.id, nodes);
        }
    }

    /// A stream waits for an event that was recorded in a capture: it joins this capture. Returns false if the event was not.
    pub(crate) fn wait_captured(
        &mut self,
        stream: &Arc<Stream>,
        event: usize,
        external: bool,
    ) -> Result<bool, Code> {
        let is_capturing = self.graphs.is_capturing(stream)?;
        if is_capturing && external {
            self.graphs.add_node(stream, Operation::Wait(event));
            return Ok(true);
        }
        let captured = self.events.get(event)?.captured.clone();
        let own = |capture: &Capture| capture.has(stream.handle);
        let Some((id, nodes)) = captured else {
            self.graphs.refuse(Code::STREAM_CAPTURE_ISOLATION, own)?;
            return Ok(false);
        };
        let graphs = &mut self.graphs;
        let Some(capture) = graphs.captures.iter_mut().find(|it| it.id == id) else {
            // Its capture has ended.
            graphs.refuse(Code::STREAM_CAPTURE_ISOLATION, own)?;
            return Err(Code::CAPTURED_EVENT);
        };
        if !capture.is_valid {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        if stream.kind == StreamKind::Legacy {
            capture.is_valid = false;
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if !is_capturing || capture.has(stream.handle) {
            capture.join(stream, &nodes);
            return Ok(true);
        }
        graphs.refuse(Code::STREAM_CAPTURE_MERGE, |it| it.id == id || own(it))?;
        Ok(true)
    }

    /// The host asks for an event, or waits for it.
    pub(crate) fn use_event(&mut self, event: usize) -> Result<(), Code> {
        let Some((id, _)) = self.events.get(event)?.captured else {
            return Ok(());
        };
        self.graphs.refuse(Code::CAPTURED_EVENT, |it| it.id == id)?;
        Err(Code::CAPTURED_EVENT)
    }
}
