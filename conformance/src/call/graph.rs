//! Stream capture and graphs.

use super::driver::linear;
use super::{Code, Cuda, Event, Memory, Stream};
use crate::Failure;
use cuda_um_sys as sys;
use std::ptr::{null, null_mut};

/// `cudaStreamCaptureMode`
pub(crate) mod mode {
    pub(crate) const GLOBAL: u32 = 0;
    pub(crate) const THREAD_LOCAL: u32 = 1;
    pub(crate) const RELAXED: u32 = 2;
}

/// `cudaStreamCaptureStatus`
pub(crate) mod status {
    pub(crate) const NONE: u32 = 0;
    pub(crate) const ACTIVE: u32 = 1;
    pub(crate) const INVALIDATED: u32 = 2;
}

/// A node of a graph: its handle.
pub(crate) type Node = usize;

/// A graph, destroyed when dropped.
pub(crate) struct Graph<'c> {
    cuda: &'c Cuda<'c>,
    raw: usize,
}

/// An executable graph, destroyed when dropped.
pub(crate) struct Exec<'c> {
    cuda: &'c Cuda<'c>,
    raw: usize,
}

/// The answer of `cudaStreamGetCaptureInfo`.
#[derive(Debug, PartialEq)]
pub(crate) struct Capture {
    pub(crate) status: u32,
    pub(crate) id: u64,
    pub(crate) graph: usize,
    pub(crate) after: Vec<Node>,
}

/// Calls a function of the table that a version may lack.
macro_rules! call_late {
    ($cuda:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let function = $cuda.table().$name;
        let function = function.ok_or_else(|| Failure(concat!("there is no ", stringify!($name)).to_owned()))?;
        call!(function($($argument),*))
    }};
}
pub(super) use call_late;

impl<'c> Cuda<'c> {
    /// `cudaThreadExchangeStreamCaptureMode`: the mode before.
    pub(crate) fn exchange_mode(&self, mode: u32) -> Result<u32, Failure> {
        let mut mode = sys::cudaStreamCaptureMode(mode);
        let code = call_late!(self, cudaThreadExchangeStreamCaptureMode(&mut mode));
        self.ok("cudaThreadExchangeStreamCaptureMode", code)?;
        Ok(mode.0)
    }

    /// `cudaGraphNodeGetType`
    pub(crate) fn node_type(&self, node: Node) -> Result<u32, Failure> {
        let mut kind = sys::cudaGraphNodeType(u32::MAX);
        let code = call_late!(self, cudaGraphNodeGetType(node as _, &mut kind));
        self.ok("cudaGraphNodeGetType", code)?;
        Ok(kind.0)
    }

    /// An executable graph of the work on a stream.
    pub(crate) fn captured(
        &'c self,
        work: impl FnOnce(&Stream<'c>) -> Result<(), Failure>,
    ) -> Result<Exec<'c>, Failure> {
        self.graph_of(work)?.instantiate()
    }

    /// A graph of the work on a stream.
    pub(crate) fn graph_of(
        &'c self,
        work: impl FnOnce(&Stream<'c>) -> Result<(), Failure>,
    ) -> Result<Graph<'c>, Failure> {
        let stream = self.stream()?;
        self.ok("cudaStreamBeginCapture", stream.begin(mode::THREAD_LOCAL)?)?;
        let worked = work(&stream);
        let (code, graph) = stream.end()?;
        worked?;
        self.ok("cudaStreamEndCapture", code)?;
        graph.ok_or_else(|| Failure("cudaStreamEndCapture gave no graph".to_owned()))
    }
}

impl<'c> Stream<'c> {
    /// `cudaStreamBeginCapture`
    pub(crate) fn begin(&self, mode: u32) -> Result<Code, Failure> {
        let mode = sys::cudaStreamCaptureMode(mode);
        Ok(call_late!(
            self.cuda(),
            cudaStreamBeginCapture(self.raw() as _, mode)
        ))
    }

    /// `cudaStreamEndCapture`: code and graph.
    pub(crate) fn end(&self) -> Result<(Code, Option<Graph<'c>>), Failure> {
        let (cuda, mut graph) = (self.cuda(), null_mut());
        let code = call_late!(cuda, cudaStreamEndCapture(self.raw() as _, &mut graph));
        let raw = graph as usize;
        Ok((code, (raw != 0).then(|| Graph { cuda, raw })))
    }

    /// `cudaStreamIsCapturing`: code and status.
    pub(crate) fn is_capturing(&self) -> Result<(Code, u32), Failure> {
        let mut status = sys::cudaStreamCaptureStatus(u32::MAX);
        let code = call_late!(
            self.cuda(),
            cudaStreamIsCapturing(self.raw() as _, &mut status)
        );
        Ok((code, status.0))
    }

    /// `cudaStreamGetCaptureInfo`
    pub(crate) fn capture(&self) -> Result<Capture, Failure> {
        let (mut status, mut id) = (sys::cudaStreamCaptureStatus(u32::MAX), 0);
        let (mut graph, mut nodes, mut count) = (null_mut(), null(), 0);
        let table = self.cuda().table();
        // SAFETY: every place is valid for the call.
        let code = unsafe {
            let (status, id, graph) = (&mut status, &mut id, &mut graph);
            table.cudaStreamGetCaptureInfo(
                self.raw() as _,
                status,
                id,
                graph,
                &mut nodes,
                &mut count,
            )
        };
        let code =
            code.ok_or_else(|| Failure("there is no cudaStreamGetCaptureInfo".to_owned()))?;
        self.cuda().ok("cudaStreamGetCaptureInfo", Code(code.0))?;
        // SAFETY: the list is valid until the next call on the stream.
        let node = |index| unsafe { *nodes.add(index) as Node };
        Ok(Capture {
            status: status.0,
            id,
            graph: graph as usize,
            after: (0..count).map(node).collect(),
        })
    }

    /// `cudaStreamWaitEvent` for an external event.
    pub(crate) fn wait_external(&self, event: &Event<'_>) -> Code {
        let (stream, event) = (self.raw() as _, event.raw() as _);
        call!(
            self.cuda().table(),
            cudaStreamWaitEvent(stream, event, sys::cudaEventWaitExternal)
        )
    }
}

impl Event<'_> {
    /// `cudaEventRecordWithFlags` of an external event.
    pub(crate) fn record_external(&self, stream: &Stream<'_>) -> Result<Code, Failure> {
        let (event, stream) = (self.raw() as _, stream.raw() as _);
        let external = sys::cudaEventRecordExternal;
        Ok(call_late!(
            self.cuda(),
            cudaEventRecordWithFlags(event, stream, external)
        ))
    }
}

impl<'c> Graph<'c> {
    /// `cudaGraphGetNodes`
    pub(crate) fn nodes(&self) -> Result<Vec<Node>, Failure> {
        let (cuda, graph) = (self.cuda, self.raw as sys::cudaGraph_t);
        let mut count = 0;
        let code = call_late!(cuda, cudaGraphGetNodes(graph, null_mut(), &mut count));
        cuda.ok("cudaGraphGetNodes", code)?;
        let mut nodes: Vec<sys::cudaGraphNode_t> = vec![null_mut(); count];
        let code = call_late!(
            cuda,
            cudaGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count)
        );
        cuda.ok("cudaGraphGetNodes", code)?;
        Ok(nodes.into_iter().map(|node| node as Node).collect())
    }

    /// `cudaGraphInstantiateWithFlags`
    pub(crate) fn instantiate(&self) -> Result<Exec<'c>, Failure> {
        let (cuda, mut exec) = (self.cuda, null_mut());
        let graph = self.raw as _;
        let code = call_late!(cuda, cudaGraphInstantiateWithFlags(&mut exec, graph, 0));
        cuda.ok("cudaGraphInstantiateWithFlags", code)?;
        let raw = exec as usize;
        Ok(Exec { cuda, raw })
    }

    /// `cudaGraphDestroy`
    pub(crate) fn destroy(self) -> Result<Code, Failure> {
        let code = self.give_back();
        std::mem::forget(self);
        code
    }

    fn give_back(&self) -> Result<Code, Failure> {
        // The graph lives, and is destroyed once.
        Ok(call_late!(self.cuda, cudaGraphDestroy(self.raw as _)))
    }
}

impl Exec<'_> {
    /// `cudaGraphLaunch`
    pub(crate) fn launch(&self, stream: &Stream<'_>) -> Result<Code, Failure> {
        let (exec, stream) = (self.raw as _, stream.raw() as _);
        Ok(call_late!(self.cuda, cudaGraphLaunch(exec, stream)))
    }

    /// `cudaGraphExecUpdate`: code, `cudaGraphExecUpdateResult`, and the node.
    pub(crate) fn update(&self, graph: &Graph<'_>) -> Result<(Code, u32, Node), Failure> {
        let mut info = sys::cudaGraphExecUpdateResultInfo::default();
        let table = self.cuda.table();
        // SAFETY: live handles and a valid place.
        let code = unsafe { table.cudaGraphExecUpdate(self.raw as _, graph.raw as _, &mut info) };
        let code = code.ok_or_else(|| Failure("there is no cudaGraphExecUpdate".to_owned()))?;
        Ok((Code(code.0), info.result.0, info.errorNode as Node))
    }

    /// `cuGraphExecKernelNodeSetParams`: the kernel of [`Cuda::add`].
    pub(crate) fn set_add(
        &self,
        node: Node,
        memory: &Memory<'_>,
        amount: u32,
    ) -> Result<Code, Failure> {
        let (mut data, mut count) = (memory.address() as u64, memory.len() as u32);
        let mut amount = amount;
        let mut arguments = [
            (&raw mut data).cast(),
            (&raw mut count).cast(),
            (&raw mut amount).cast(),
        ];
        let shape = linear(memory.len());
        let params = sys::CUDA_KERNEL_NODE_PARAMS {
            func: self.cuda.kernel("conf_add")?,
            gridDimX: shape.grid[0],
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.block[0],
            blockDimY: 1,
            blockDimZ: 1,
            kernelParams: arguments.as_mut_ptr(),
            ..Default::default()
        };
        let set = self.cuda.driver()?.cuGraphExecKernelNodeSetParams;
        let set =
            set.ok_or_else(|| Failure("there is no cuGraphExecKernelNodeSetParams".to_owned()))?;
        Ok(call!(set(self.raw as _, node as _, &params)))
    }

    /// `cudaGraphExecMemsetNodeSetParams` of bytes.
    pub(crate) fn set_memset(
        &self,
        node: Node,
        memory: &Memory<'_>,
        value: u32,
    ) -> Result<Code, Failure> {
        let params = sys::cudaMemsetParams {
            dst: memory.address() as _,
            value,
            elementSize: 1,
            width: memory.bytes(),
            height: 1,
            ..Default::default()
        };
        let exec = self.raw as _;
        Ok(call_late!(
            self.cuda,
            cudaGraphExecMemsetNodeSetParams(exec, node as _, &params)
        ))
    }

    /// `cudaGraphExecMemcpyNodeSetParams1D`
    pub(crate) fn set_memcpy(
        &self,
        node: Node,
        to: &Memory<'_>,
        from: &Memory<'_>,
        kind: u32,
    ) -> Result<Code, Failure> {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        let (exec, kind) = (self.raw as _, sys::cudaMemcpyKind(kind));
        let (to, from, bytes) = (to.address(), from.address(), from.bytes());
        let function = self.cuda.table().cudaGraphExecMemcpyNodeSetParams1D;
        let function = function
            .ok_or_else(|| Failure("there is no cudaGraphExecMemcpyNodeSetParams1D".to_owned()))?;
        Ok(call!(function(
            exec, node as _, to as _, from as _, bytes, kind
        )))
    }

    /// `cudaGraphExecDestroy`
    pub(crate) fn destroy(self) -> Result<Code, Failure> {
        let code = self.give_back();
        std::mem::forget(self);
        code
    }

    fn give_back(&self) -> Result<Code, Failure> {
        // The executable graph lives, and is destroyed once.
        Ok(call_late!(self.cuda, cudaGraphExecDestroy(self.raw as _)))
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        if self.give_back().is_ok_and(|code| code != Code::SUCCESS) {
            self.cuda.complain("a graph is not destroyed".to_owned());
        }
    }
}

impl Drop for Exec<'_> {
    fn drop(&mut self) {
        if self.give_back().is_ok_and(|code| code != Code::SUCCESS) {
            self.cuda
                .complain("an executable graph is not destroyed".to_owned());
        }
    }
}
