//! Functions of the driver that do the same as a function of the runtime.

use cuda_um_sys::{cudaGraphExecUpdateResultInfo, cudaMemLocation};

use super::guard::driver_twins;
use super::pointer::{Array, HostFunction, Out, Text, UserData};
use super::pool::{AccessDescription, PoolProps};

driver_twins! {
    fn cuDeviceGetCount(count: Out<i32>) = device::cudaGetDeviceCount;
    fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) = device::cudaDeviceGetAttribute;
    fn cuDeviceGetPCIBusId(text: Out<u8>, len: i32, device: i32) = device::cudaDeviceGetPCIBusId;
    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) = device::cudaDeviceCanAccessPeer;
    fn cuDeviceGetP2PAttribute(value: Out<i32>, attribute: u32, from: i32, to: i32) = device::cudaDeviceGetP2PAttribute;
    fn cuCtxSynchronize() = device::cudaDeviceSynchronize;
    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) = device::cudaDeviceGetStreamPriorityRange;
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) = device::cudaMemGetInfo;

    fn cuStreamCreate(stream: Out<usize>, flags: u32) = stream::cudaStreamCreateWithFlags;
    fn cuStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: i32) = stream::cudaStreamCreateWithPriority;
    fn cuStreamGetDevice(stream: usize, device: Out<i32>) = stream::cudaStreamGetDevice;
    fn cuStreamGetFlags(stream: usize, flags: Out<u32>) = stream::cudaStreamGetFlags;
    fn cuStreamGetId(stream: usize, id: Out<u64>) = stream::cudaStreamGetId;
    fn cuStreamGetPriority(stream: usize, priority: Out<i32>) = stream::cudaStreamGetPriority;
    fn cuStreamDestroy_v2(stream: usize) = stream::cudaStreamDestroy;
    fn cuStreamSynchronize(stream: usize) = stream::cudaStreamSynchronize;
    fn cuStreamQuery(stream: usize) = stream::cudaStreamQuery;
    fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) = stream::cudaStreamWaitEvent;
    fn cuStreamBeginCapture_v2(stream: usize, mode: u32) = graph::cudaStreamBeginCapture;
    fn cuStreamEndCapture(stream: usize, graph: Out<usize>) = graph::cudaStreamEndCapture;
    fn cuStreamIsCapturing(stream: usize, status: Out<u32>) = graph::cudaStreamIsCapturing;
    fn cuStreamGetCaptureInfo_v2(stream: usize, status: Out<u32>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, count: Out<usize>)
        = graph::cudaStreamGetCaptureInfo_v2;
    fn cuStreamGetCaptureInfo_v3(
        stream: usize, status: Out<u32>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>
    ) = graph::cudaStreamGetCaptureInfo_v3;
    fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) = graph::cudaThreadExchangeStreamCaptureMode;
    fn cuGraphCreate(graph: Out<usize>, flags: u32) = graph_node::cudaGraphCreate;
    fn cuGraphAddEmptyNode(node: Out<usize>, graph: usize, after: Array<usize>, count: usize) = graph_node::cudaGraphAddEmptyNode;
    fn cuGraphAddChildGraphNode(node: Out<usize>, graph: usize, after: Array<usize>, count: usize, child: usize)
        = graph_node::cudaGraphAddChildGraphNode;
    fn cuGraphAddEventRecordNode(node: Out<usize>, graph: usize, after: Array<usize>, count: usize, event: usize)
        = graph_node::cudaGraphAddEventRecordNode;
    fn cuGraphAddEventWaitNode(node: Out<usize>, graph: usize, after: Array<usize>, count: usize, event: usize)
        = graph_node::cudaGraphAddEventWaitNode;
    fn cuGraphAddMemFreeNode(node: Out<usize>, graph: usize, after: Array<usize>, count: usize, pointer: usize)
        = graph_node::cudaGraphAddMemFreeNode;
    fn cuGraphChildGraphNodeGetGraph(node: usize, graph: Out<usize>) = graph_node::cudaGraphChildGraphNodeGetGraph;
    fn cuGraphEventWaitNodeGetEvent(node: usize, event: Out<usize>) = graph_node::cudaGraphEventWaitNodeGetEvent;
    fn cuGraphEventRecordNodeGetEvent(node: usize, event: Out<usize>) = graph_node::cudaGraphEventRecordNodeGetEvent;
    fn cuGraphMemFreeNodeGetParams(node: usize, pointer: Out<usize>) = graph_node::cudaGraphMemFreeNodeGetParams;
    fn cuGraphEventWaitNodeSetEvent(node: usize, event: usize) = graph_node::cudaGraphEventWaitNodeSetEvent;
    fn cuGraphEventRecordNodeSetEvent(node: usize, event: usize) = graph_node::cudaGraphEventRecordNodeSetEvent;
    fn cuGraphExecEventWaitNodeSetEvent(exec: usize, node: usize, event: usize) = graph_node::cudaGraphExecEventWaitNodeSetEvent;
    fn cuGraphExecEventRecordNodeSetEvent(exec: usize, node: usize, event: usize) = graph_node::cudaGraphExecEventRecordNodeSetEvent;
    fn cuGraphExecChildGraphNodeSetParams(exec: usize, node: usize, child: usize) = graph_node::cudaGraphExecChildGraphNodeSetParams;
    fn cuGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) = graph_edges::cudaGraphGetNodes;
    fn cuGraphGetRootNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) = graph_edges::cudaGraphGetRootNodes;
    fn cuGraphNodeGetType(node: usize, kind: Out<u32>) = graph_edges::cudaGraphNodeGetType;
    fn cuGraphGetEdges(graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) = graph_edges::cudaGraphGetEdges;
    fn cuGraphGetEdges_v2(graph: usize, from: Out<usize>, to: Out<usize>, data: Out<u64>, count: Out<usize>)
        = graph_edges::cudaGraphGetEdges_v2;
    fn cuGraphNodeGetDependencies(node: usize, nodes: Out<usize>, count: Out<usize>) = graph_edges::cudaGraphNodeGetDependencies;
    fn cuGraphNodeGetDependencies_v2(node: usize, nodes: Out<usize>, data: Out<u64>, count: Out<usize>)
        = graph_edges::cudaGraphNodeGetDependencies_v2;
    fn cuGraphNodeGetDependentNodes(node: usize, nodes: Out<usize>, count: Out<usize>) = graph_edges::cudaGraphNodeGetDependentNodes;
    fn cuGraphNodeGetDependentNodes_v2(node: usize, nodes: Out<usize>, data: Out<u64>, count: Out<usize>)
        = graph_edges::cudaGraphNodeGetDependentNodes_v2;
    fn cuGraphAddDependencies(graph: usize, from: Array<usize>, to: Array<usize>, count: usize) = graph_edges::cudaGraphAddDependencies;
    fn cuGraphAddDependencies_v2(graph: usize, from: Array<usize>, to: Array<usize>, data: Out<u64>, count: usize)
        = graph_edges::cudaGraphAddDependencies_v2;
    fn cuGraphRemoveDependencies(graph: usize, from: Array<usize>, to: Array<usize>, count: usize)
        = graph_edges::cudaGraphRemoveDependencies;
    fn cuGraphRemoveDependencies_v2(graph: usize, from: Array<usize>, to: Array<usize>, data: Out<u64>, count: usize)
        = graph_edges::cudaGraphRemoveDependencies_v2;
    fn cuGraphDestroyNode(node: usize) = graph_edges::cudaGraphDestroyNode;
    fn cuGraphClone(copy: Out<usize>, graph: usize) = graph_edges::cudaGraphClone;
    fn cuGraphNodeFindInClone(found: Out<usize>, node: usize, copy: usize) = graph_edges::cudaGraphNodeFindInClone;
    fn cuGraphDebugDotPrint(graph: usize, path: Text, flags: u32) = graph_edges::cudaGraphDebugDotPrint;
    fn cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: Out<u64>) = graph::cudaDeviceGetGraphMemAttribute;
    fn cuDeviceSetGraphMemAttribute(device: i32, attribute: u32, value: Out<u64>) = graph::cudaDeviceSetGraphMemAttribute;
    fn cuDeviceGraphMemTrim(device: i32) = graph::cudaDeviceGraphMemTrim;
    fn cuUserObjectCreate(object: Out<usize>, data: UserData, destroy: HostFunction, count: u32, flags: u32) = user_object::cudaUserObjectCreate;
    fn cuUserObjectRetain(object: usize, count: u32) = user_object::cudaUserObjectRetain;
    fn cuUserObjectRelease(object: usize, count: u32) = user_object::cudaUserObjectRelease;
    fn cuGraphRetainUserObject(graph: usize, object: usize, count: u32, flags: u32) = user_object::cudaGraphRetainUserObject;
    fn cuGraphReleaseUserObject(graph: usize, object: usize, count: u32) = user_object::cudaGraphReleaseUserObject;
    fn cuGraphUpload(exec: usize, stream: usize) = graph::cudaGraphUpload;
    fn cuGraphInstantiateWithParams(exec: Out<usize>, graph: usize, params: Out<[u64; 4]>) = graph::cudaGraphInstantiateWithParams;
    fn cuGraphExecGetFlags(exec: usize, flags: Out<u64>) = graph::cudaGraphExecGetFlags;
    fn cuStreamBeginCaptureToGraph(stream: usize, graph: usize, after: Array<usize>, edges: Array<u8>, count: usize, mode: u32)
        = graph::cudaStreamBeginCaptureToGraph;
    fn cuStreamUpdateCaptureDependencies(stream: usize, nodes: Array<usize>, count: usize, flags: u32)
        = graph::cudaStreamUpdateCaptureDependencies;
    fn cuStreamUpdateCaptureDependencies_v2(stream: usize, nodes: Array<usize>, edges: Array<u8>, count: usize, flags: u32)
        = graph::cudaStreamUpdateCaptureDependencies_v2;
    fn cuGraphExecUpdate_v2(exec: usize, graph: usize, info: Out<cudaGraphExecUpdateResultInfo>) = graph::cudaGraphExecUpdate_12;
    fn cuGraphDestroy(graph: usize) = graph::cudaGraphDestroy;
    fn cuGraphInstantiateWithFlags(exec: Out<usize>, graph: usize, flags: u64) = graph::cudaGraphInstantiateWithFlags;
    fn cuGraphLaunch(exec: usize, stream: usize) = graph::cudaGraphLaunch;
    fn cuGraphExecDestroy(exec: usize) = graph::cudaGraphExecDestroy;
    fn cuLaunchHostFunc(stream: usize, function: HostFunction, data: UserData) = stream::cudaLaunchHostFunc;
    fn cuStreamAttachMemAsync(stream: usize, pointer: usize, bytes: usize, flags: u32) = memory::cudaStreamAttachMemAsync;

    fn cuEventCreate(event: Out<usize>, flags: u32) = event::cudaEventCreateWithFlags;
    fn cuEventDestroy_v2(event: usize) = event::cudaEventDestroy;
    fn cuEventRecord(event: usize, stream: usize) = event::cudaEventRecord;
    fn cuEventRecordWithFlags(event: usize, stream: usize, flags: u32) = event::cudaEventRecordWithFlags;
    fn cuEventQuery(event: usize) = event::cudaEventQuery;
    fn cuEventSynchronize(event: usize) = event::cudaEventSynchronize;
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize) = event::cudaEventElapsedTime;
    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: usize, end: usize) = event::cudaEventElapsedTime;

    fn cuMemFree_v2(pointer: usize) = release::cudaFree;
    fn cuMemFreeHost(pointer: usize) = release::cudaFreeHost;
    fn cuMemFreeAsync(pointer: usize, stream: usize) = release::cudaFreeAsync;
    fn cuMemHostRegister_v2(pointer: usize, bytes: usize, flags: u32) = memory::cudaHostRegister;
    fn cuMemHostUnregister(pointer: usize) = memory::cudaHostUnregister;
    fn cuMemHostGetDevicePointer_v2(device_pointer: Out<usize>, pointer: usize, flags: u32) = memory::cudaHostGetDevicePointer;
    fn cuMemHostGetFlags(flags: Out<u32>, pointer: usize) = memory::cudaHostGetFlags;

    fn cuMemAllocAsync(pointer: Out<usize>, bytes: usize, stream: usize) = pool::cudaMallocAsync;
    fn cuMemAllocFromPoolAsync(pointer: Out<usize>, bytes: usize, pool: usize, stream: usize) = pool::cudaMallocFromPoolAsync;
    fn cuMemPoolCreate(pool: Out<usize>, props: Out<PoolProps>) = pool::cudaMemPoolCreate;
    fn cuMemPoolDestroy(pool: usize) = pool::cudaMemPoolDestroy;
    fn cuMemPoolTrimTo(pool: usize, keep: usize) = pool::cudaMemPoolTrimTo;
    fn cuMemPoolSetAttribute(pool: usize, attribute: u32, value: Out<u64>) = pool::cudaMemPoolSetAttribute;
    fn cuMemPoolGetAttribute(pool: usize, attribute: u32, value: Out<u64>) = pool::cudaMemPoolGetAttribute;
    fn cuMemPoolSetAccess(pool: usize, descriptions: Array<AccessDescription>, count: usize) = pool::cudaMemPoolSetAccess;
    fn cuDeviceGetDefaultMemPool(pool: Out<usize>, device: i32) = pool::cudaDeviceGetDefaultMemPool;
    fn cuDeviceGetMemPool(pool: Out<usize>, device: i32) = pool::cudaDeviceGetMemPool;
    fn cuDeviceSetMemPool(device: i32, pool: usize) = pool::cudaDeviceSetMemPool;
    fn cuMemPoolGetAccess(flags: Out<u32>, pool: usize, location: Out<cudaMemLocation>) = pool::cudaMemPoolGetAccess;
    fn cuMemGetDefaultMemPool(pool: Out<usize>, location: Out<cudaMemLocation>, kind: u32) = pool::cudaMemGetDefaultMemPool;
    fn cuMemGetMemPool(pool: Out<usize>, location: Out<cudaMemLocation>, kind: u32) = pool::cudaMemGetMemPool;
    fn cuMemSetMemPool(location: Out<cudaMemLocation>, kind: u32, pool: usize) = pool::cudaMemSetMemPool;

    fn cuMemPrefetchAsync(pointer: usize, bytes: usize, device: i32, stream: usize) = managed::cudaMemPrefetchAsync;
    fn cuMemPrefetchAsync_v2(pointer: usize, bytes: usize, to: cudaMemLocation, flags: u32, stream: usize) = managed::cudaMemPrefetchAsync_v2;
    fn cuMemAdvise(pointer: usize, bytes: usize, advice: u32, device: i32) = managed::cudaMemAdvise;
    fn cuMemAdvise_v2(pointer: usize, bytes: usize, advice: u32, location: cudaMemLocation) = managed::cudaMemAdvise_v2;
    fn cuMemRangeGetAttributes(data: Array<Out<i32>>, data_bytes: Array<usize>, attributes: Array<i32>, count: usize, pointer: usize, bytes: usize)
        = managed::cudaMemRangeGetAttributes;
    fn cuMemPrefetchBatchAsync(
        pointers: Array<usize>, sizes: Array<usize>, count: usize, places: Array<cudaMemLocation>, indices: Array<usize>,
        place_count: usize, flags: u64, stream: usize
    ) = managed::cudaMemPrefetchBatchAsync;
    fn cuMemDiscardBatchAsync(pointers: Array<usize>, sizes: Array<usize>, count: usize, flags: u64, stream: usize)
        = managed::cudaMemDiscardBatchAsync;
    fn cuMemDiscardAndPrefetchBatchAsync(
        pointers: Array<usize>, sizes: Array<usize>, count: usize, places: Array<cudaMemLocation>, indices: Array<usize>,
        place_count: usize, flags: u64, stream: usize
    ) = managed::cudaMemDiscardAndPrefetchBatchAsync;
    fn cuMemRangeGetAttribute(data: Out<i32>, data_bytes: usize, which: i32, pointer: usize, bytes: usize) = managed::cudaMemRangeGetAttribute;
}
